// SPDX-License-Identifier: Apache-2.0
// Sends a whole trial from inside one BPF_PROG_TEST_RUN call with live frames: the kernel runs this program once for
// each page it could send, and the program decides whether a frame is due, writes it, and redirects it to the card.
//
// A page is recycled with everything the device under test wrote into it, so each frame gets all of its headers anew.
// The kernel flushes the card's queue at the end of a batch. When nothing is due the program waits, but only in the
// first slot of a batch: in the others it drops the page, so that the batch ends and what is written really leaves.
//
// The constants below are set before loading; the verifier removes every branch that they rule out.
#include "packet.h"

const volatile __u32 egress_ifindex;
const volatile __u32 batch = 16;
const volatile __u32 lane_count = 1;
const volatile __u32 head_len;	    /* bytes of a head to copy: headers and probe of the longest, a multiple of 4 */
const volatile __u32 data_len;	    /* of the pages: the longest frame */
const volatile __u8 paced;	    /* any lane has a gap */
const volatile __u8 fixed_probe_at; /* the same in all shapes, or 0 */
const volatile __u8 fixed_sum_at;
const volatile __u8 keep_log;	    /* remember the stream of each frame, for the places of refusals */
const volatile __u8 rewrite_payload; /* the receiver of a page may write to it: veth */
const volatile __u8 keep_gaps;	    /* fill the gap histogram */
const volatile __u32 clock_every = 1; /* unpaced: read the clock for each n-th frame */
const volatile __u64 max_lag_ns = 100 * 1000 * 1000;

#define SPIN_NS 20000 /* softirqs of this CPU wait meanwhile */
#define SPIN_STEPS 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shape);
} shapes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow4);
} flows4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow6);
} flows6 SEC(".maps");

/* What follows the head in every frame. */
struct payload {
	__u8 bytes[PAYLOAD_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct payload);
} payloads SEC(".maps");

/* One row of BUCKETS a lane. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BUCKETS(GAP_STEPS_LOG2));
	__type(key, __u32);
	__type(value, __u64);
} gaps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SENT_LOG);
	__type(key, __u32);
	__type(value, __u32);
} sent_log SEC(".maps");

struct wait {
	__u64 due, until, now;
};

static long one_look(__u32 step, struct wait *w)
{
	w->now = bpf_ktime_get_ns();
	return w->now >= w->until;
}

/* Passes the time until `due`, or a while; returns the time then. */
static __always_inline __u64 spin(__u64 due, __u64 now)
{
	struct wait w = {.due = due, .until = now + SPIN_NS, .now = now};

	if (due < w.until)
		w.until = due;
	bpf_loop(SPIN_STEPS, one_look, &w, 0);
	return w.now;
}

static __always_inline int halt(struct control *c, __u32 why, __u64 now)
{
	if (!c->halt)
		c->halt = why;
	if (!c->ended_ns)
		c->ended_ns = now;
	return XDP_DROP;
}

/* What a program can do. Each program below is `send` with other constants, so that the simplest trial, one stream of
 * equal frames at full speed, pays for nothing else. */
struct mode {
	__u32 lanes;
	__u8 paced, one_stream, one_shape, flows, log, gaps, bursts;
};

/* When the lane's next frame is due. A burst that has begun is due at once. */
static __always_inline __u64 due_of(const struct mode m, const struct lane *l)
{
	if (!l->frames_left)
		return ~0ULL;
	if (!m.paced || (m.bursts && l->burst_left))
		return l->last_ns;
	return l->last_ns + ((l->gap_q24 + l->last_frac) >> 24);
}

/* Moves the lane past the frame that is sent now. What is later than max_lag_ns is skipped and counted as missed. */
static __always_inline void advance(const struct mode m, struct lane *l, __u64 due, __u64 now)
{
	l->frames_left--;
	if (!m.paced && m.lanes == 1)
		return;
	if (m.bursts && l->burst_left) {
		l->burst_left--;
	} else if (!l->gap_q24) {
		l->last_ns = now;
	} else {
		if (now - due > l->late_max_ns)
			l->late_max_ns = now - due;
		if (unlikely(now - due > max_lag_ns)) {
			__u64 gap = (l->gap_q24 >> 24) ?: 1;
			__u64 skipped = (now - due) / gap;

			l->missed += skipped * l->burst;
			due += skipped * gap;
		}
		l->last_frac = (__u32)(l->gap_q24 + l->last_frac) & 0xffffff;
		l->last_ns = due;
		if (m.bursts)
			l->burst_left = l->burst - 1;
	}
}

#define COPY(n)                                                                    \
	do {                                                                       \
		_Pragma("unroll") for (int i = 0; i < (n) / 8; i++)                \
			((__u64 *)to)[i] = ((const __u64 *)from)[i];               \
		if ((n) % 8)                                                       \
			((__u32 *)to)[(n) / 4 - 1] = ((const __u32 *)from)[(n) / 4 - 1]; \
	} while (0)

/* Copies headers and probe. The lengths named here cost no comparison: the verifier knows which one it is. */
static __always_inline void copy_head(void *to, const void *from, __u32 len)
{
	if (len == 60) /* UDP over IPv4 */
		COPY(60);
	else if (len == 64) /* with a VLAN tag */
		COPY(64);
	else if (len == 72) /* TCP over IPv4 */
		COPY(72);
	else if (len == 80) /* UDP over IPv6 */
		COPY(80);
	else if (len == 92) /* TCP over IPv6 */
		COPY(92);
	else
		COPY(HEAD_MAX);
}

/* The part of a frame at `at`, `len` bytes long, or nothing. */
static __always_inline void *part(void *data, void *data_end, __u32 at, __u32 len)
{
	void *p = data + (at & (HEAD_MAX - 1));

	return p + len > data_end ? NULL : p;
}

/* Writes addresses and ports of the stream's next flow; returns what they add to the checksum. */
static __always_inline __u64 write_flow(struct stream *s, const struct shape *sh, void *data, void *data_end)
{
	__u32 key;

	if (!s->flows)
		return 0;
	key = s->flow_first + s->flow_at;
	if (++s->flow_at >= s->flows)
		s->flow_at = 0;
	if (sh->flags & SHAPE_IPV6) {
		const struct flow6 *f = bpf_map_lookup_elem(&flows6, &key);
		__u64 *a = part(data, data_end, sh->addresses_at, 32);
		__u32 *p = part(data, data_end, sh->ports_at, 4);

		if (!f || !a || !p)
			return 0;
		a[0] = f->source[0];
		a[1] = f->source[1];
		a[2] = f->destination[0];
		a[3] = f->destination[1];
		*p = f->ports;
		return f->sum;
	} else {
		const struct flow4 *f = bpf_map_lookup_elem(&flows4, &key);
		__u32 *a = part(data, data_end, sh->addresses_at, 8);
		__u32 *p = part(data, data_end, sh->ports_at, 4);
		__u16 *ip_sum = part(data, data_end, sh->ip_sum_at, 2);

		if (!f || !a || !p || !ip_sum)
			return 0;
		a[0] = f->source;
		a[1] = f->destination;
		*p = f->ports;
		*ip_sum = ~fold((__u64)sh->ip_base + f->ip_sum);
		return f->sum;
	}
}

static __always_inline int write_frame(const struct mode m, struct xdp_md *ctx, struct stream *s, const struct shape *sh,
				       __u64 now)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u64 sequence = bpf_cpu_to_be64(s->sequence << 16), time = bpf_cpu_to_be64(now);
	__u32 len = head_len;
	__u64 sum = sh->base;
	__u16 value;
	void *probe;
	__u16 *at;

	if (data + (len <= HEAD_MAX ? len : HEAD_MAX) > data_end)
		return -1;
	copy_head(data, sh->head, len);
	if (m.flows)
		sum += write_flow(s, sh, data, data_end);

	probe = part(data, data_end, fixed_probe_at ?: sh->probe_at, PROBE_LEN);
	at = part(data, data_end, fixed_sum_at ?: sh->sum_at, 2);
	if (!probe || !at)
		return -1;
	/* The second store overwrites the two bytes that the first one has too many. */
	*(__u64 *)(probe + PROBE_SEQUENCE_AT) = sequence;
	*(__u64 *)(probe + PROBE_TIME_AT) = time;
	value = ~fold(sum + halves(sequence) + halves(time));
	if (!value && (sh->flags & SHAPE_UDP))
		value = 0xffff;
	*at = value;
	if (rewrite_payload && sh->length > len) {
		__u32 zero = 0, rest = sh->length - len;
		struct payload *p = bpf_map_lookup_elem(&payloads, &zero);

		if (!p || rest == 0 || rest > PAYLOAD_MAX || bpf_xdp_store_bytes(ctx, len, p->bytes, rest))
			return -1;
	}
	if (!m.one_shape && sh->length < data_len)
		return bpf_xdp_adjust_tail(ctx, (int)sh->length - (int)data_len);
	return 0;
}

static __always_inline struct stream *next_stream(const struct mode m, struct lane *l, __u32 *number)
{
	__u32 key = 0;

	if (!m.one_stream) {
		key = l->stream_first + l->stream_at;
		if (++l->stream_at >= l->streams)
			l->stream_at = 0;
	}
	*number = key;
	return bpf_map_lookup_elem(&streams, &key);
}

static __always_inline struct shape *next_shape(const struct mode m, struct stream *s)
{
	__u32 key = 0;

	if (!m.one_shape) {
		__u32 at = s->order_first + s->order_at;
		const __u32 *shape = bpf_map_lookup_elem(&orders, &at);

		if (++s->order_at >= s->orders)
			s->order_at = 0;
		if (!shape)
			return NULL;
		key = *shape;
	}
	return bpf_map_lookup_elem(&shapes, &key);
}

static __always_inline void note_gap(struct lane *l, __u32 lane, __u64 now)
{
	__u32 row;
	__u64 *n;

	if (l->sent_at_ns) {
		row = lane * BUCKETS(GAP_STEPS_LOG2) + bucket_of(now - l->sent_at_ns, GAP_STEPS_LOG2);
		n = bpf_map_lookup_elem(&gaps, &row);
		if (n)
			*n += 1;
	}
	l->sent_at_ns = now;
}

/* The time: paced lanes read the clock for each frame, others now and then, because reading costs a fifth of a frame. */
static __always_inline __u64 time_now(const struct mode m, struct control *c)
{
	if (m.paced)
		return bpf_ktime_get_ns();
	if (c->clock_age == 0) {
		c->now_ns = bpf_ktime_get_ns();
		c->clock_age = clock_every;
	}
	c->clock_age--;
	return c->now_ns;
}

static __always_inline int send(struct xdp_md *ctx, const struct mode m)
{
	__u32 zero = 0, lane = 0, number, slot = 0;
	struct control *c = bpf_map_lookup_elem(&control, &zero);
	struct stream *s;
	struct shape *sh;
	struct lane *l;
	__u64 now, due;

	if (!c)
		return XDP_ABORTED;
	if (m.paced || m.log) {
		slot = c->slot;
		c->slot = slot + 1 >= batch ? 0 : slot + 1;
	}
	if (unlikely(c->halt)) {
		/* User space ends the call by a signal; until then, do not burn through the call's repetitions. */
		now = bpf_ktime_get_ns();
		spin(~0ULL, now);
		return halt(c, c->halt, now);
	}
	now = time_now(m, c);

	if (m.lanes == 1) {
		due = due_of(m, &c->lanes[0]);
	} else {
		due = ~0ULL;
		for (__u32 i = 0; i < MAX_LANES; i++) {
			__u64 d;

			if (i >= m.lanes)
				break;
			d = due_of(m, &c->lanes[i]);
			if (d < due) {
				due = d;
				lane = i;
			}
		}
	}
	if (m.paced && now < due && slot == 0 && due != ~0ULL)
		now = spin(due < c->end_ns ? due : c->end_ns, now);
	if (unlikely(now >= c->end_ns))
		return halt(c, HALT_TIME_UP, now);
	if (unlikely(now < due)) {
		if (due == ~0ULL)
			return halt(c, HALT_ALL_SENT, now);
		if (!m.paced)
			c->clock_age = 0;
		return XDP_DROP;
	}
	/* At full speed the log relies on batches that are full. */
	if (m.log && !m.paced && unlikely(!c->begun_ns) && slot != 0)
		return XDP_DROP;

	l = &c->lanes[m.lanes == 1 ? 0 : lane & (MAX_LANES - 1)];
	s = next_stream(m, l, &number);
	if (!s)
		return XDP_ABORTED;
	sh = next_shape(m, s);
	if (!sh || write_frame(m, ctx, s, sh, now))
		return XDP_ABORTED;
	if (unlikely(!c->begun_ns))
		c->begun_ns = now;
	s->sequence++;
	s->bytes += sh->length;
	if (m.gaps)
		note_gap(l, lane, now);
	if (m.log) {
		__u32 at = c->log_head++ & (SENT_LOG - 1);
		__u32 *entry = bpf_map_lookup_elem(&sent_log, &at);

		if (entry)
			*entry = number;
	}
	advance(m, l, due, now);
	return bpf_redirect(egress_ifindex, 0);
}

/* One stream of equal frames at full speed. */
SEC("xdp")
int send_full(struct xdp_md *ctx)
{
	return send(ctx, (struct mode){.lanes = 1, .one_stream = 1, .one_shape = 1});
}

/* The same with many flows. */
SEC("xdp")
int send_flows(struct xdp_md *ctx)
{
	return send(ctx, (struct mode){.lanes = 1, .one_stream = 1, .one_shape = 1, .flows = 1});
}

/* One stream of equal frames at a pace. */
SEC("xdp")
int send_paced(struct xdp_md *ctx)
{
	return send(ctx, (struct mode){.lanes = 1, .paced = 1, .one_stream = 1, .one_shape = 1, .flows = 1, .gaps = 1});
}

/* Everything. */
SEC("xdp")
int send_any(struct xdp_md *ctx)
{
	return send(ctx, (struct mode){.lanes = lane_count,
				       .paced = paced,
				       .one_shape = 0,
				       .flows = 1,
				       .log = 1,
				       .gaps = keep_gaps,
				       .bursts = 1});
}

/* ---- what the device took ---- */

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

const volatile __u32 egress_netns; /* inode of the network namespace that egress_ifindex means */
const volatile __u64 pidns_device, pidns_inode; /* of the sender's pid namespace */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct refusals);
} refusals SEC(".maps");

struct blame {
	__u32 at;
};

static long blame_one(__u32 i, struct blame *b)
{
	__u32 at = (b->at + i) & (SENT_LOG - 1);
	__u32 *number = bpf_map_lookup_elem(&sent_log, &at);
	struct stream *s = number ? bpf_map_lookup_elem(&streams, number) : NULL;

	if (s)
		s->refused++;
	return 0;
}

/* Whether the calling thread is the sender: others may redirect to the same interface. */
static __always_inline struct refusals *ours(void)
{
	struct bpf_pidns_info who = {};
	__u32 zero = 0;
	struct refusals *r = bpf_map_lookup_elem(&refusals, &zero);

	if (!r || bpf_get_ns_current_pid_tgid(pidns_device, pidns_inode, &who, sizeof(who)) || who.pid != r->tid)
		return NULL;
	return r;
}

static __always_inline int is_egress(const struct net_device *dev)
{
	return dev->nd_net.net->ns.inum == egress_netns && dev->ifindex == (int)egress_ifindex;
}

/* Runs on the sender's CPU each time the kernel hands a bulk of at most 16 frames to the driver. The driver takes them
 * in order and stops at the first that does not fit, so the refused ones are the last. A bulk goes out at the end of a
 * batch, or when the frame after it has been written already: in the middle of a batch, which then is full (paced
 * batches are no longer than a bulk). */
SEC("tp_btf/xdp_devmap_xmit")
int note_refused(__u64 *args)
{
	int drops = (int)args[3];
	struct refusals *r;

	if (likely(drops <= 0))
		return 0;
	if (!is_egress((const struct net_device *)args[1]))
		return 0;
	r = ours();
	if (!r)
		return 0;
	r->by_driver += drops;
	r->last_error = (int)args[4] < 0 ? -(int)args[4] : 0;
	if (keep_log) {
		__u32 zero = 0;
		struct control *c = bpf_map_lookup_elem(&control, &zero);
		struct blame b = {};

		if (!c)
			return 0;
		b.at = c->log_head - drops - (c->slot != 0);
		bpf_loop(drops, blame_one, &b, 0);
	}
	return 0;
}

/* Runs for a frame that the kernel could not even queue. It is the last one that was written. */
SEC("tp_btf/xdp_redirect_err")
int note_unreached(__u64 *args)
{
	struct refusals *r = ours();

	if (!r)
		return 0;
	r->before++;
	r->last_error = (int)args[3] < 0 ? -(int)args[3] : 0;
	if (keep_log) {
		__u32 zero = 0;
		struct control *c = bpf_map_lookup_elem(&control, &zero);
		struct blame b = {};

		if (!c)
			return 0;
		b.at = c->log_head - 1;
		blame_one(0, &b);
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
