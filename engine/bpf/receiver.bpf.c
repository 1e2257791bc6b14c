// SPDX-License-Identifier: Apache-2.0
// Accounts for every frame of ours: counts it, finds out whether it is new, late or a duplicate, bins its latency, and
// drops it. Everything else goes on to the kernel, so ARP, neighbour discovery and SSH work on the same interface.
//
// A frame is ours by its probe, wherever translation moved its addresses: the magic number, a stream of this trial, and a
// send time that lies in the last day and not in the future. The time is what makes a mistake impossible in practice:
// the magic number alone would swallow each 65536th segment of somebody's encrypted connection, again at each resend.
//
// Several CPUs: totals are kept for each CPU and added up in user space; the ledger of a stream is one for all, changed
// by compare-and-swap where several queues exist (`shared`), and by plain stores where one queue exists, which NAPI never
// runs on two CPUs at once. "Arrival" is then the order in which the CPUs reach the ledger.
#include "packet.h"

const volatile __u8 shared;	     /* several queues */
const volatile __u8 verify;	     /* check the transport checksum */
const volatile __u32 cpus = 1;	     /* rows a stream; 1 unless shared */
const volatile __u32 stream_count = 1;
const volatile __u32 first_id;	     /* ids are contiguous from here on, or ... */
const volatile __u8 use_ids;	     /* ... looked up in `ids` */
const volatile __u32 steps_log2 = 10;
const volatile __u32 clock_uses = 8; /* frames of one poll that share a reading of the clock */
const volatile __s64 clock_offset_ns; /* the sender's clock minus ours */

#define DAY_NS (86400ULL * 1000 * 1000 * 1000)
#define FUTURE_NS (1000ULL * 1000 * 1000)
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

/* BUCKETS(steps_log2) entries a tally. */
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

/* Stream number by probe id; NO_STREAM: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct reading);
} readings SEC(".maps");

/* ---- the clock ---- */

/* Reading the clock costs about as much as accounting for a frame. Within one poll of the queue, frames are handled at
 * most some hundred nanoseconds apart, so a few of them share a reading; the first of each poll makes a new one. */
SEC("tp_btf/napi_poll")
int end_of_poll(void *ctx)
{
	__u32 zero = 0;
	struct reading *r = bpf_map_lookup_elem(&readings, &zero);

	if (r)
		r->uses_left = 0;
	return 0;
}

static __always_inline __u64 read_clock(void)
{
	__u32 zero = 0;
	struct reading *r;

	if (clock_uses <= 1)
		return bpf_ktime_get_ns();
	r = bpf_map_lookup_elem(&readings, &zero);
	if (!r)
		return bpf_ktime_get_ns();
	if (r->uses_left == 0) {
		r->now_ns = bpf_ktime_get_ns();
		r->uses_left = clock_uses;
	}
	r->uses_left--;
	return r->now_ns;
}

/* What the stack does with a frame that is passed takes time. */
static __always_inline void forget_clock(void)
{
	__u32 zero = 0;
	struct reading *r;

	if (clock_uses <= 1)
		return;
	r = bpf_map_lookup_elem(&readings, &zero);
	if (r)
		r->uses_left = 0;
}

/* ---- what a frame is ---- */

#define ETH_IPV4 0x0800
#define ETH_IPV6 0x86dd
#define PROTO_ICMP 1
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_ICMPV6 58

struct found {
	__u16 l3, l4, probe; /* offsets; probe == 0: not ours */
	__u8 version, protocol, tags;
};

static __always_inline int is_tag(__u16 type)
{
	return type == bpf_htons(0x8100) || type == bpf_htons(0x88a8) || type == bpf_htons(0x9100);
}

/* Finds where a probe would lie: Ethernet, up to four tags, IPv4 with options or IPv6, UDP, TCP with options, ICMP echo.
 * Returns the place, or 0. */
static __noinline int find(struct xdp_md *ctx, struct found *f)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 l3 = 14, l4;
	__u16 type;
	__u8 *p;

	f->tags = 0;
	f->probe = 0;
	if (data + 14 > data_end)
		return 0;
	type = *(__u16 *)(data + 12);
#pragma unroll
	for (int i = 0; i < 4; i++) {
		if (!is_tag(type))
			break;
		if (data + l3 + 4 > data_end)
			return 0;
		type = *(__u16 *)(data + l3 + 2);
		l3 += 4;
		f->tags++;
	}
	f->l3 = l3;
	p = data + l3;
	if (type == bpf_htons(ETH_IPV4)) {
		if ((void *)p + 20 > data_end)
			return 0;
		/* Only the first fragment has a transport header, and none of ours is a fragment. */
		if (*(__u16 *)(p + 6) & bpf_htons(0x3fff))
			return 0;
		f->version = 4;
		f->protocol = p[9];
		l4 = l3 + ((p[0] & 15) << 2);
	} else if (type == bpf_htons(ETH_IPV6)) {
		if ((void *)p + 40 > data_end)
			return 0;
		f->version = 6;
		f->protocol = p[6];
		l4 = l3 + 40;
	} else {
		return 0;
	}
	f->l4 = l4;
	if (f->protocol == PROTO_UDP) {
		f->probe = l4 + 8;
	} else if (f->protocol == PROTO_TCP) {
		p = data + (l4 & 0x7f);
		if ((void *)p + 20 > data_end)
			return 0;
		f->probe = l4 + ((p[12] >> 4) << 2);
	} else if (f->protocol == PROTO_ICMP || f->protocol == PROTO_ICMPV6) {
		p = data + (l4 & 0x7f);
		if ((void *)p + 8 > data_end)
			return 0;
		/* Echo request and reply. */
		if (p[0] == 8 || p[0] == 0 || p[0] == 128 || p[0] == 129)
			f->probe = l4 + 8;
	}
	return f->probe;
}

/* ---- checksum ---- */

struct summing {
	struct xdp_md *ctx;
	__u32 at, end;
	__u64 sum;
	__u8 failed;
};

#define CHUNK 64

static long sum_chunk(__u32 i, struct summing *s)
{
	__u8 bytes[CHUNK] = {};
	__u64 *words = (__u64 *)bytes;
	__u32 left = s->end - s->at;

	if (s->at >= s->end)
		return 1;
	if (left >= CHUNK) {
		if (bpf_xdp_load_bytes(s->ctx, s->at, bytes, CHUNK))
			goto fail;
		left = CHUNK;
	} else {
		/* The verifier wants a constant or a bounded length that is not zero. */
		left &= CHUNK - 1;
		if (left == 0 || bpf_xdp_load_bytes(s->ctx, s->at, bytes, left))
			goto fail;
	}
	for (int w = 0; w < CHUNK / 8; w++)
		s->sum += halves(words[w]);
	s->at += left;
	return 0;
fail:
	s->failed = 1;
	return 1;
}

/* Whether the transport checksum is right. 0 in UDP over IPv4 means that there is none (RFC 768). */
static __noinline int is_sound(struct xdp_md *ctx)
{
	struct found found = {}, *f = &found;
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct summing s = {.ctx = ctx};
	void *p;
	__u16 length;

	if (!find(ctx, f))
		return 0;
	s.at = f->l4;
	p = data + (f->l3 & 0x3f);

	if (f->version == 4) {
		if (p + 20 > data_end)
			return 0;
		length = bpf_ntohs(*(__u16 *)(p + 2));
		s.end = f->l3 + length;
		length -= f->l4 - f->l3;
		if (f->protocol != PROTO_ICMP)
			s.sum = (__u64) * (__u32 *)(p + 12) + *(__u32 *)(p + 16);
	} else {
		if (p + 40 > data_end)
			return 0;
		length = bpf_ntohs(*(__u16 *)(p + 4));
		s.end = f->l4 + length;
		for (int i = 0; i < 8; i++)
			s.sum += *(__u32 *)(p + 8 + 4 * i);
	}
	if (f->protocol != PROTO_ICMP)
		s.sum += (__u64)bpf_htons(length) + bpf_htons(f->protocol);
	if (f->protocol == PROTO_UDP && f->version == 4) {
		p = data + (f->l4 & 0x7f);
		if (p + 8 > data_end)
			return 0;
		if (*(__u16 *)(p + 6) == 0)
			return 1;
	}
	bpf_loop(4096 / CHUNK, sum_chunk, &s, 0);
	return !s.failed && fold(s.sum) == 0xffff;
}

/* ---- where it came from ---- */

static __noinline int note_source(struct xdp_md *ctx, struct tally *t)
{
	struct found found = {}, *f = &found;
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct source s = {};
	void *p, *q;
	__u32 n;

	if (!t || !find(ctx, f))
		return 0;
	p = data + (f->l3 & 0x3f);
	q = data + (f->l4 & 0x7f);
	if (q + 8 > data_end)
		return 0;
	s.ip_version = f->version;
	s.protocol = f->protocol;
	s.tags = f->tags;
	if (f->version == 4) {
		if (p + 20 > data_end)
			return 0;
		*(__u32 *)s.address = *(__u32 *)(p + 12);
		*(__u32 *)s.destination = *(__u32 *)(p + 16);
		s.hop_limit = *(__u8 *)(p + 8);
	} else {
		if (p + 40 > data_end)
			return 0;
		__builtin_memcpy(s.address, p + 8, 16);
		__builtin_memcpy(s.destination, p + 24, 16);
		s.hop_limit = *(__u8 *)(p + 7);
	}
	if (f->protocol == PROTO_ICMP || f->protocol == PROTO_ICMPV6)
		q += 4;
	s.port = *(__u16 *)q;
	s.destination_port = *(__u16 *)(q + 2);
	n = t->sources_seen;
	for (__u32 i = 0; i < SOURCES; i++) {
		const __u64 *a = (const __u64 *)t->sources[i].address, *b = (const __u64 *)s.address;

		if (i >= n) {
			t->sources[i] = s;
			t->sources_seen = i + 1;
			return 0;
		}
		if (a[0] == b[0] && a[1] == b[1] && t->sources[i].port == s.port)
			return 0;
	}
	return 0;
}

/* ---- the ledger ---- */

struct search {
	struct ledger *l;
	__u64 sequence, found; /* arrival plus one of the first overtaker */
};

static long look_at_jump(__u32 i, struct search *s)
{
	struct ledger *l = s->l;
	struct jump *j = &l->jumps[(l->jump_head - 1 - i) & (JUMPS - 1)];

	if (i >= l->jump_head)
		return 1;
	if (j->from <= s->sequence && s->sequence < j->to) {
		s->found = j->arrival + 1;
		return 1;
	}
	return 0;
}

/* RFC 4737 section 4.2.1: how many arrivals ago the first frame with a higher number came. That frame made the gap into
 * which this one falls. */
static __noinline int note_extent(struct tally *t, struct ledger *l, __u64 sequence, __u64 arrival)
{
	struct search s = {.l = l, .sequence = sequence};
	__u64 extent;

	if (!t || !l)
		return 0;
	bpf_loop(JUMPS, look_at_jump, &s, 0);
	if (!s.found) {
		t->extent_unknown++;
		return 0;
	}
	extent = arrival + 1 - s.found;
	t->extent_sum += extent;
	if (extent > t->extent_max)
		t->extent_max = extent;
	return 0;
}

enum verdict { UNIQUE, DUPLICATE, TOO_OLD };

static __always_inline enum verdict look_up(__u64 word, __u64 round, __u64 bit, __u64 *then)
{
	__u64 its_round = word >> 32;

	if (its_round == round) {
		if (word & bit)
			return DUPLICATE;
		*then = word | bit;
		return UNIQUE;
	}
	if (its_round > round)
		return TOO_OLD;
	*then = round << 32 | bit;
	return UNIQUE;
}

/* Marks a sequence number. No word is ever cleared ahead of time: a word says itself which round it belongs to. */
static __always_inline enum verdict mark(struct ledger *l, __u64 sequence)
{
	__u64 *word = &l->window[(sequence >> WINDOW_WORD_LOG2) & (WINDOW_WORDS - 1)];
	__u64 round = sequence >> WINDOW_LOG2, bit = 1ULL << (sequence & 31), then = 0, was;
	enum verdict v;

	if (!shared) {
		v = look_up(*word, round, bit, &then);
		if (v == UNIQUE)
			*word = then;
		return v;
	}
	for (int i = 0; i < 16; i++) {
		was = *word;
		v = look_up(was, round, bit, &then);
		if (v != UNIQUE || __sync_val_compare_and_swap(word, was, then) == was)
			return v;
	}
	return TOO_OLD;
}

/* Moves NextExp; returns whether the frame came after a higher one. */
static __always_inline int is_reordered(struct ledger *l, __u64 sequence, __u64 arrival)
{
	__u64 next = l->next;

	if (!shared) {
		if (sequence < next)
			return 1;
		l->next = sequence + 1;
	} else {
		for (int i = 0; i < 16; i++) {
			__u64 was;

			if (sequence < next)
				return 1;
			was = __sync_val_compare_and_swap(&l->next, next, sequence + 1);
			if (was == next)
				break;
			next = was;
		}
	}
	if (unlikely(sequence > next)) {
		__u64 at = shared ? __sync_fetch_and_add(&l->jump_head, 1) : l->jump_head++;
		struct jump *j = &l->jumps[at & (JUMPS - 1)];

		j->from = next;
		j->to = sequence;
		j->arrival = arrival;
	}
	return 0;
}

/* ---- the program ---- */

static __always_inline void note_latency(struct tally *t, __u32 row, __u64 sequence, __s64 latency)
{
	__u64 ns = latency, difference;
	__u32 key;
	__u64 *n;

	if (unlikely(latency < 0)) {
		t->negative++;
		t->last_sequence = 0;
		return;
	}
	key = row * BUCKETS(steps_log2) + bucket_of(ns, steps_log2);
	n = bpf_map_lookup_elem(&latencies, &key);
	if (n)
		*n += 1;
	t->latency_sum_ns += ns;
	if (ns > t->latency_max_ns)
		t->latency_max_ns = ns;
	if (~ns > t->latency_floor)
		t->latency_floor = ~ns;
	if (t->last_sequence == sequence) {
		difference = ns > t->last_latency_ns ? ns - t->last_latency_ns : t->last_latency_ns - ns;
		t->ipdv_sum_ns += difference;
		if (difference > t->ipdv_max_ns)
			t->ipdv_max_ns = difference;
	} else {
		t->ipdv_breaks++;
	}
	t->last_sequence = sequence + 1;
	t->last_latency_ns = ns;
}

static __always_inline int pass(void)
{
	__u32 row = shared ? bpf_get_smp_processor_id() : 0;
	struct others *o = bpf_map_lookup_elem(&others, &row);

	if (o)
		o->passed++;
	forget_clock();
	return XDP_PASS;
}

SEC("xdp")
int account(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end, *probe;
	__u32 stream, row, cpu = 0;
	__u32 probe_at = 42;
	__u64 now, head, sequence, sent, arrival;
	struct ledger *l;
	struct tally *t;
	enum verdict v;

	/* The usual frame: no tags, no options, UDP; not a fragment. */
	if (!(data + 60 <= data_end && *(__u16 *)(data + 12) == bpf_htons(ETH_IPV4) && *(__u8 *)(data + 14) == 0x45 &&
	      *(__u8 *)(data + 23) == PROTO_UDP && !(*(__u16 *)(data + 20) & bpf_htons(0x3fff)))) {
		struct found f = {};

		probe_at = find(ctx, &f);
		if (!probe_at)
			return pass();
	}
	probe = data + (probe_at & 0xff);
	if (probe + PROBE_LEN > data_end || *(__u16 *)probe != bpf_htons(PROBE_MAGIC))
		return pass();
	head = bpf_be64_to_cpu(*(__u64 *)(probe + 2));
	sequence = head & 0xffffffffffffULL;
	sent = bpf_be64_to_cpu(*(__u64 *)(probe + PROBE_TIME_AT)) - clock_offset_ns;
	now = read_clock();
	/* From a day ago until a moment ahead. */
	if (now + FUTURE_NS - sent > DAY_NS)
		return pass();

	if (shared)
		cpu = bpf_get_smp_processor_id();
	stream = head >> 48;
	if (use_ids) {
		__u32 *known = bpf_map_lookup_elem(&ids, &stream);

		stream = known ? *known : NO_STREAM;
	} else {
		stream -= first_id;
	}
	if (unlikely(stream >= stream_count)) {
		struct others *o = bpf_map_lookup_elem(&others, &cpu);

		if (o)
			o->unknown++;
		return XDP_DROP;
	}
	row = shared ? stream * cpus + cpu : stream;
	t = bpf_map_lookup_elem(&tallies, &row);
	l = bpf_map_lookup_elem(&ledgers, &stream);
	if (!t || !l)
		return XDP_ABORTED;
	if (unlikely(sent < t->begin_ns)) {
		t->stale++;
		return XDP_DROP;
	}
	if (verify && !is_sound(ctx)) {
		t->corrupted++;
		return XDP_DROP;
	}

	if (unlikely(t->unique < SOURCE_FRAMES)) {
		if (!t->first_arrival_ns)
			t->first_arrival_ns = now;
		note_source(ctx, t);
	}
	t->bytes += data_end - data;
	t->last_arrival_ns = now;
	v = mark(l, sequence);
	if (unlikely(v != UNIQUE)) {
		if (v == DUPLICATE)
			t->duplicates++;
		else
			t->too_old++;
		return XDP_DROP;
	}
	arrival = t->unique++;
	if (shared)
		arrival = __sync_fetch_and_add(&l->arrivals, 1);
	if (unlikely(is_reordered(l, sequence, arrival))) {
		t->reordered++;
		note_extent(t, l, sequence, arrival);
	}
	note_latency(t, row, sequence, now - sent);
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
