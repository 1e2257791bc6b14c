// SPDX-License-Identifier: Apache-2.0
// Accounts for every frame of ours: counts it, finds out whether it is new, late or a duplicate, bins its latency, and
// drops it. Everything else goes on to the kernel, so ARP, neighbour discovery and SSH work on the same interface.
//
// A frame is ours by its probe, whatever translation did to its addresses and whatever clock its sender has: the magic
// number, a stream of this trial, and the trial's own number. The trial's number makes a mistake practically
// impossible: with magic number and stream alone, the program would drop an encrypted segment of a foreign connection
// now and then, and again at each retransmission. So a frame without the trial's number, such as one of a generator
// that was left running, is counted as stale and goes on to the kernel.
//
// Several CPUs: totals are kept for each CPU and added up in user space. The ledger of a stream is shared by all,
// changed by compare-and-swap where several queues exist (`account_shared`), and by plain stores where one queue
// exists, which NAPI never runs on two CPUs at once. "Arrival" is then the order in which the CPUs reach the ledger, which is not
// that of the link where frames of several queues are compared. So `ways` follows each queue separately: a frame that
// is overtaken there was reordered by the DUT.
#include "checksum.h"
#include "ledger.h"
#include "reading.h"
#include "source.h"

const volatile __u8 verify;	     /* check the transport checksum */
const volatile __u32 cpus = 1;	     /* rows a stream; 1 unless shared */
const volatile __u32 queues = 1;     /* receive queues that are counted separately */
const volatile __u8 by_cpu;	     /* and on each CPU: no poll shows the order in which two of them run */
const volatile __u32 stream_count = 1;
const volatile __u8 use_ids;	     /* look numbers up in `ids`; else they are contiguous */
const volatile __u8 coarse;	     /* latencies in COARSE_LOG2 steps an octave, not FINE_LOG2 */

/* Values that change between trials without reloading the program: written by user space before it is attached. */
volatile struct {
	__u64 first_id; /* the least number of a stream, where they are contiguous */
	__u64 trial;	/* number in the probes of this trial, as on the wire */
} asked;

#define NO_STREAM 0xffffffff

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ledger);
} ledgers SEC(".maps");

/* BUCKETS entries for each tally. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct others);
} others SEC(".maps");

/* Ways of a stream: one more than the highest number that came on each. One way is served by one CPU at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} ways SEC(".maps");

/* Stream index by probe id; NO_STREAM: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} ids SEC(".maps");

static __always_inline void note_latency(struct tally *t, __u32 row, __u64 sequence, __s64 latency)
{
	__u64 ns = latency, difference;
	__u32 key;
	__u64 *n;

	/* From frame to frame the difference of two clocks cancels out (RFC 5481 section 4.1). */
	if (sequence && t->last_sequence == sequence) {
		difference = latency > t->last_latency_ns ? latency - t->last_latency_ns : t->last_latency_ns - latency;
		t->ipdv_sum_ns += difference;
		if (difference > t->ipdv_max_ns)
			t->ipdv_max_ns = difference;
	} else {
		t->ipdv_breaks++;
	}
	/* A late frame only removes its own two pairs. */
	if (sequence + 1 > t->last_sequence) {
		t->last_sequence = sequence + 1;
		t->last_latency_ns = latency;
	}
	if (unlikely(latency < 0)) {
		t->negative++;
		return;
	}
	if (coarse)
		key = row * BUCKETS(COARSE_LOG2) + bucket_of(ns, COARSE_LOG2);
	else
		key = row * BUCKETS(FINE_LOG2) + bucket_of(ns, FINE_LOG2);
	n = bpf_map_lookup_elem(&latencies, &key);
	if (n)
		*n += 1;
	t->latency_sum_ns += ns;
	if (ns > t->latency_max_ns)
		t->latency_max_ns = ns;
	if (~ns > t->latency_floor)
		t->latency_floor = ~ns;
}

static __always_inline void note_way(struct xdp_md *ctx, struct tally *t, __u32 stream, __u32 cpu, __u64 sequence)
{
	__u32 key = ctx->rx_queue_index, all = queues;
	__u64 *next;

	if (key >= queues) {
		t->astray++;
		return;
	}
	if (by_cpu) {
		key += cpu * queues;
		all *= cpus;
	}
	key += stream * all;
	next = bpf_map_lookup_elem(&ways, &key);
	if (!next)
		return;
	if (sequence < *next)
		t->in_queue++;
	else
		*next = sequence + 1;
}

/* A CPU without a row: nothing can be counted for it, which user space reports as a fault. */
static __always_inline int misplaced(void)
{
	__u32 zero = 0;
	struct others *o = bpf_map_lookup_elem(&others, &zero);

	if (o)
		__sync_fetch_and_add(&o->misplaced, 1);
	return XDP_PASS;
}

static __always_inline int pass(__u32 cpu)
{
	struct others *o = bpf_map_lookup_elem(&others, &cpu);

	if (o)
		o->passed++;
	forget_clock();
	return XDP_PASS;
}

static __always_inline int is_of_trial(const void *probe)
{
	return *(const __u16 *)(probe + PROBE_STAMP_AT) == (__u16)asked.trial;
}

/* Account for a frame with a probe; `usual`: it is UDP over IPv4 without tags or options, of at least SHORTEST bytes. */
static __always_inline int take(struct xdp_md *ctx, const int shared, const int usual, const void *data, const void *data_end,
				const void *probe, __u32 cpu)
{
	__u64 now, head, sequence, stamp, sent, arrival;
	__u32 stream, row;
	struct ledger *l;
	struct tally *t;
	enum verdict v;
	__s64 age;

	head = bpf_be64_to_cpu(*(__u64 *)(probe + 2));
	sequence = head & 0xffffffffffffULL;
	stamp = bpf_be64_to_cpu(*(__u64 *)(probe + PROBE_STAMP_AT));

	stream = head >> 48;
	if (use_ids) {
		__u32 *known = bpf_map_lookup_elem(&ids, &stream);

		stream = known ? *known : NO_STREAM;
	} else {
		stream -= asked.first_id;
	}
	if (unlikely(stream >= stream_count)) {
		struct others *o = bpf_map_lookup_elem(&others, &cpu);

		if (!is_of_trial(probe))
			return pass(cpu);
		if (o)
			o->unknown++;
		return XDP_DROP;
	}
	row = shared ? stream * cpus + cpu : stream;
	t = bpf_map_lookup_elem(&tallies, &row);
	l = bpf_map_lookup_elem(&ledgers, &stream);
	if (!t || !l)
		return XDP_ABORTED;
	/* Check the checksum first: the trial's number and the time may be corrupted. Between trials nothing is checked. */
	if (verify && t->begin_ns != ~0ULL && unlikely(!(usual ? is_sound_usual(ctx, data) : is_sound(ctx)))) {
		t->corrupted++;
		if (is_of_trial(probe))
			return XDP_DROP;
		forget_clock();
		return XDP_PASS;
	}
	if (unlikely(!is_of_trial(probe))) {
		t->stale++;
		forget_clock();
		return XDP_PASS;
	}
	/* On our clock; the time in a probe repeats every 78 hours. */
	sent = stamp - t->sender_ahead_ns;
	age = read_clock(sent, &now);
	if (unlikely(now - age < t->begin_ns)) {
		t->stale++;
		return XDP_DROP;
	}
	if (unlikely(t->unique < SOURCE_FRAMES)) {
		if (!t->first_arrival_ns)
			t->first_arrival_ns = now;
		note_source(ctx, t);
	}
	t->bytes += data_end - data;
	t->last_arrival_ns = now;
	v = mark(shared, l, sequence);
	if (unlikely(v != UNIQUE)) {
		if (v == DUPLICATE)
			t->duplicates++;
		else
			t->too_old++;
		return XDP_DROP;
	}
	arrival = t->unique++;
	if (shared) {
		arrival = __sync_fetch_and_add(&l->arrivals, 1);
		note_way(ctx, t, stream, cpu, sequence);
	}
	if (unlikely(is_reordered(shared, l, sequence, arrival))) {
		t->reordered++;
		note_extent(t, l, sequence, arrival);
		if (!shared)
			note_by_three(t, sequence);
	}
	if (!shared)
		t->recent[arrival & (RECENT - 1)] = sequence;
	note_latency(t, row, sequence, age);
	return XDP_DROP;
}

/* Return the place of the probe in an uncommon frame, or 0. */
__noinline int place(struct xdp_md *ctx)
{
	struct found f = {};

	return find(ctx, &f);
}

static __always_inline int has_magic(const void *probe, const void *data_end)
{
	return probe + PROBE_LEN <= data_end && *(const __u16 *)probe == bpf_htons(PROBE_MAGIC);
}

static __always_inline int account(struct xdp_md *ctx, const int shared)
{
	const void *data = (const void *)(long)ctx->data, *data_end = (const void *)(long)ctx->data_end, *probe;
	__u32 at, cpu = 0;

	if (shared) {
		cpu = bpf_get_smp_processor_id();
		if (unlikely(cpu >= cpus))
			return misplaced();
	}
	/* The common frame: no tags, no options, UDP; not a fragment. */
	if (likely(data + SHORTEST <= data_end && *(const __u16 *)(data + 12) == bpf_htons(ETH_IPV4) &&
		   *(const __u8 *)(data + 14) == 0x45 && *(const __u8 *)(data + 23) == PROTO_UDP &&
		   !(*(const __u16 *)(data + 20) & bpf_htons(0x3fff)))) {
		probe = data + PLAIN_PROBE_AT;
		return has_magic(probe, data_end) ? take(ctx, shared, 1, data, data_end, probe, cpu) : pass(cpu);
	}
	at = place(ctx);
	probe = data + (at & 0xff);
	return at && has_magic(probe, data_end) ? take(ctx, shared, 0, data, data_end, probe, cpu) : pass(cpu);
}

/* Frames of one queue. */
SEC("xdp")
int account_alone(struct xdp_md *ctx)
{
	return account(ctx, 0);
}

/* Frames of several queues, or that several CPUs take. */
SEC("xdp")
int account_shared(struct xdp_md *ctx)
{
	return account(ctx, 1);
}

char _license[] SEC("license") = "GPL";
