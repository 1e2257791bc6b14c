/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of every map value, shared by the eBPF programs and the Rust side. `engine/xdp/src/contract.rs` is the
 * other half, and asserts each size when it is compiled.
 *
 * All times are CLOCK_MONOTONIC nanoseconds. Everything here is written by one side and read by the other as single
 * aligned words; nothing needs more than one word to be consistent, except where a comment says so. */
#ifndef DUTLAB_CONTRACT_H
#define DUTLAB_CONTRACT_H

#include <linux/types.h>

/* The probe: 18 bytes after the transport header, big endian, as engine/wire defines it. */
#define PROBE_MAGIC 0xd17a
#define PROBE_LEN 18
#define PROBE_SEQUENCE_AT 4
#define PROBE_STAMP_AT 10
/* The stamp: the trial's number, and below it the send time in nanoseconds, as many of its low bits as fit: 78 hours. */
#define TIME_BITS 48
#define TIME_MASK ((1ULL << TIME_BITS) - 1)

/* A histogram of 2^steps_log2 steps an octave, so a value is known to 1 / 2^steps_log2; 2^36 ns (68 s) and more share
 * the last bucket. */
#define TOP_LOG2 36
#define BUCKETS(steps_log2) ((TOP_LOG2 - (steps_log2) + 1) << (steps_log2))
#define GAP_STEPS_LOG2 7
#define FINE_LOG2 10
#define COARSE_LOG2 7

#define MAX_LANES 32
#define HEAD_MAX 128
/* Places in a plain frame: UDP over IPv4, without tags or options. */
#define PLAIN_LEN 60
#define PLAIN_SUM_AT 40
#define PLAIN_PROBE_AT 42
#define PAYLOAD_MAX 3400
#define SENT_LOG 4096 /* lane of each of the last frames, for the place of a refusal; a power of two */
#define WRITTEN 32    /* paced frames that can be taken back; a power of two, and at least a bulk */

/* Reasons why a sender has stopped sending. */
#define HALT_NO 0
#define HALT_ASKED 1
#define HALT_TIME_UP 2
#define HALT_ALL_SENT 3

/* Progress of a lane: advanced by writing a frame, and restored by taking it back. */
struct progress {
	__u64 last_ns;	  /* the due time of the last frame (of the last burst) */
	__u64 missed;	  /* frames that were due but skipped, because the lane was more than MAX_LAG_NS late */
	__u64 kept_out;	  /* part of `missed`: while the lane was behind because the device had no room */
	__u64 sent_at_ns; /* when the last frame was written, for the gap histogram */
	__u32 last_frac;  /* fraction of last_ns, in ns * 2^24 */
	__u32 burst_left; /* remaining frames of the current burst */
};

/* A stream, or the part of it that one CPU sends. */
struct stream {
	__u64 sequence; /* frames offered to the device and not taken back; so the number of the next, unless it is drawn (`split`) */
	__u64 bytes;	/* offered, without FCS */
	__u32 id;	/* number in the probe */
	__u32 order_first, orders, order_at; /* order of the shapes: indices into `orders` */
	__u32 flow_first, flows, flow_at;    /* flows == 0: the addresses of the shape */
	__u32 counter; /* source of its numbers: an index into `numbers` */
	__u64 refused; /* offered frames that were refused: the device's queue was full, or it went down */
	__u64 unused;
};

/* One frame as it is sent: its headers, its length, and the sums of everything that does not change. */
struct shape {
	__u8 head[HEAD_MAX]; /* headers and probe; ports, addresses, checksums, sequence and time are filled in */
	__u16 length;	     /* of the frame, without FCS */
	__u8 addresses_at;   /* IPv4: source, destination; IPv6 the same; 0: no flow fields */
	__u8 ports_at;	     /* source and destination port; ICMP: the identifier is at +0 and +2 is rewritten as given */
	__u8 ip_sum_at;	     /* IPv4 header checksum; 0: none (IPv6) */
	__u8 sum_at;	     /* checksum of UDP, TCP, ICMP; 0: none */
	__u8 probe_at;
	__u8 flags;	     /* SHAPE_* */
	__u32 ip_base;	     /* sum of the IPv4 header without addresses, as native-endian 16-bit words */
	__u32 base;	     /* sum of pseudo header, transport header and payload without flow fields, sequence and time */
};
#define SHAPE_UDP 1  /* a checksum of 0 is written as 0xffff (RFC 768) */
#define SHAPE_IPV6 2

/* A stream with its pace on one CPU. */
struct lane {
	__u64 gap_q24; /* time between two due times, in ns * 2^24; 0: as fast as possible. User space may change it. */
	struct progress at;
	__u64 frames_left; /* ends at 0; U64_MAX: no limit */
	__u64 late_max_ns; /* longest delay of a frame after it was due; paced lanes only */
	__u32 burst;	   /* frames that leave together at each due time, at least 1 */
	__u32 held;   /* frames that were taken back, because the device had no room, and have not been offered again */
	__u64 behind_ns; /* time since which frames are taken back without the lane having caught up; 0: it has */
	struct stream stream;
};

/* Fields that writing a paced frame changed, with their values from before. */
struct written {
	struct progress lane_at;
	__u64 begun_ns;
	__u64 bytes;
	__u64 number; /* number of the frame: kept, not changed */
	__u32 order_at, flow_at;
	__u32 lane;
	__u32 gap_row; /* row in which its gap was counted; 2^32 - 1: none */
};

/* State of one sending CPU. */
struct control {
	__u32 halt; /* HALT_*; written by both, never back to HALT_NO */
	__u32 slot; /* slot in the kernel's batch, counted because the kernel does not report it; 0 at each call */
	__u64 end_ns;
	__u64 begun_ns; /* when the first frame was written */
	__u64 ended_ns; /* when the program first saw that it must halt */
	__u64 now_ns;	/* the last reading of the clock, for programs that do not read it for each frame */
	__u64 seen_end_ns; /* when a paced program with a frame still due first saw that the end had passed */
	__u32 clock_age;
	__u32 log_head;
	__u64 stamp; /* `now_ns` as it is in probes, and its part of the checksum with that of `shape`; for plain frames */
	__u64 stamp_sum;
	struct shape shape; /* the only one of its lane, where each lane has one */
	struct lane lanes[MAX_LANES];
	struct written written[WRITTEN];
	/* Numbers of frames that came back, where CPUs share a stream's numbers, in descending order. At most one bulk of
	 * them. */
	__u64 returned[WRITTEN];
	__u32 returned_count, unused;
	__u64 unused_too[4]; /* no two CPUs write to one line of the cache */
};

struct flow4 {
	__u32 source, destination; /* as on the wire */
	__u32 ports;		   /* as on the wire */
	__u16 ip_sum;		   /* sum of both addresses, native endian, folded */
	__u16 sum;		   /* the flow's part of the transport checksum */
};

struct flow6 {
	__u64 source[2], destination[2];
	__u32 ports;
	__u16 sum;
	__u16 unused;
};

/* Frames of a CPU that the device did not take; written on the kernel's tracepoints. */
struct refusals {
	__u64 by_driver;   /* its queue was full */
	__u64 before;	   /* did not reach the driver: the interface is down or gone, or the frame too long */
	__u32 last_error;  /* errno, as a positive number; 0: the queue was full */
	__u32 tid;	   /* of the sending thread, in its own pid namespace; written by user space */
	__u64 unused[5];
};

/* ---- receiving ---- */

/* Sequence state of a stream: shared by all CPUs that receive it. */
#define WINDOW_WORDS 4096		  /* a power of two; each word remembers 32 sequence numbers */
#define WINDOW_WORD_LOG2 5
#define WINDOW_LOG2 17			  /* the window has room for 131 072 numbers */
/* Numbers below `next` for which it is known whether they came; further back, late and duplicate are
 * indistinguishable. A word is reused as a whole, so this is one word less than the window.
 * engine/measure/src/ledger.rs has the same rule. */
#define REMEMBERED ((WINDOW_WORDS - 1) << WINDOW_WORD_LOG2)
#define JUMPS 64			  /* gaps whose place of arrival is remembered, for the extent of a reordering */

struct jump {
	__u64 from, to;	 /* frames from..to were missing when to arrived */
	__u64 arrival;	 /* its number among the arrivals */
};

struct ledger {
	__u64 next;	 /* RFC 4737's NextExp: one more than the highest seen */
	__u64 arrivals;	 /* of several CPUs; duplicates not counted (RFC 4737 3.3). Of one CPU: its tally's `unique` */
	__u64 jump_head;
	struct jump jumps[JUMPS];
	__u64 window[WINDOW_WORDS]; /* high half: which round of the window; low half: one bit a sequence number */
};

#define RECENT 4 /* a power of two */
#define SOURCES 16
#define SOURCE_FRAMES 1024

/* Claimed sender of a frame as it arrived, and the other fields that a translator may have changed. */
struct source {
	__u8 address[16], destination[16];   /* IPv4 in the first four bytes */
	__u16 port, destination_port;	     /* as on the wire; ICMP: identifier, sequence number */
	__u8 ip_version, protocol, hop_limit, tags;
};

/* Totals of a stream on one CPU; user space adds the CPUs up. */
struct tally {
	__u64 begin_ns;		/* written by user space: frames sent before are stale; 2^64 - 1 between trials */
	__s64 sender_ahead_ns;	/* written by user space: the sender's clock minus ours */
	__u64 unique;		/* arrivals of this trial are unique + duplicates + too_old */
	__u64 bytes;		/* of all arrivals, without FCS */
	__u64 latency_sum_ns;	/* of the unique ones, negative ones left out */
	__u64 latency_max_ns;
	__u64 latency_floor;	/* 2^64 - 1 - the least latency, so that 0 means none */
	__u64 last_arrival_ns;
	__u64 first_arrival_ns;
	__u64 last_sequence;	/* plus one; 0: none yet */
	__s64 last_latency_ns;	/* negative where the clocks differ */
	__u64 ipdv_breaks;	/* unique ones without a latency of the frame before */
	__u64 ipdv_sum_ns, ipdv_max_ns; /* RFC 5481: |difference| of latency of frames n and n+1, both of which came in order */
	__u64 duplicates;
	__u64 reordered;	/* unique ones that came after a higher one (RFC 4737) */
	__u64 too_old;		/* too far behind for the window to know whether they came before */
	__u64 extent_sum, extent_max, extent_unknown; /* RFC 4737 4.2.1: arrivals since the first overtaker */
	__u64 stale;		/* of another trial, or sent before this one began; not among the arrivals */
	__u64 corrupted;	/* checksum wrong; not among the arrivals */
	__u64 negative;		/* arrived before they were sent, by the clocks */
	__u64 by_three;		/* RFC 4737 5.3: reordered, and the three arrivals before have higher numbers; one CPU only */
	__u64 in_queue;		/* reordered ones that came after a higher one of the same queue; several queues only */
	__u64 astray;		/* unique ones of a queue that has no row in `ways`: their place is unknown */
	__u64 recent[RECENT];	/* numbers of the last arrivals, in turn; one CPU only */
	__u32 sources_seen;
	__u32 unused;
	struct source sources[SOURCES]; /* the different ones among the first SOURCE_FRAMES frames */
};

/* Frames that belong to no stream, on one CPU. */
struct others {
	__u64 passed;  /* not ours: went on to the kernel */
	__u64 unknown; /* a probe of this trial, but a stream that it does not have; dropped */
	__u64 misplaced; /* in the first row only: came on a CPU that has no row */
	__u64 unused[5];
};

/* Last time read by this CPU, within one poll of a queue. */
struct reading {
	__u64 now_ns;
	__u64 uses_left;
};

#endif
