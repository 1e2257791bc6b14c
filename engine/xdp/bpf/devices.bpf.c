// SPDX-License-Identifier: Apache-2.0
// Devices under test with a known effect on traffic: each takes every frame that enters one port and sends it out of
// another, except for one deliberate fault. They verify our counting.
//
// They run on tc ingress, where a frame can be cloned. Frames that are not UDP over IPv4 pass unharmed to the host.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "contract.h"

#define DROPS 1	     /* every n-th frame */
#define DUPLICATES 2 /* every n-th frame, the copy right behind it */
#define SWAPS 3	     /* of each n frames, the last two change places; n at least 2 */
#define POLICES 4    /* lets n frames a second through, with a bucket of `depth` frames */
#define HOLDS 5	     /* sends a frame n ns after its probe's send time, in order */
#define CORRUPTS 6   /* flips a bit of the last byte of every n-th frame */
#define TRANSLATES 7 /* gives each connection a port of `public_address`; knows `most` at once, and takes n new ones a second, with a bucket of `depth` */

const volatile __u32 kind, out_ifindex, depth = 1, back_ifindex, most;
const volatile __u32 public_address; /* as it is in a frame */
const volatile __u64 n = 1;

#define FRAME_MAX 1514
#define STAMP_AT (42 + PROBE_STAMP_AT)
#define SPIN_STEPS (1 << 20)
#define FIRST_PORT 1024
#define PLACES 64512
#define IP_CSUM_AT 24
#define SOURCE_AT 26
#define DESTINATION_AT 30
#define SOURCE_PORT_AT 34
#define DESTINATION_PORT_AT 36
#define UDP_CSUM_AT 40

struct state {
	struct bpf_spin_lock lock;
	__u32 held_len; /* of the frame that waits */
	__u64 seen;   /* frames that came */
	__u64 wronged; /* frames dropped, doubled, swapped, corrupted; connections refused */
	__u64 tokens; /* in frames * 10^9 */
	__u64 last_ns;
	__u64 known; /* connections */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} device_state SEC(".maps");

struct held {
	__u8 bytes[2048];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct held);
} device_held SEC(".maps");

/* A connection as in its first frame, in the byte order of the frame. */
struct connection {
	__u32 source, destination;
	__u16 source_port, destination_port;
};

/* Index of each connection; its port is FIRST_PORT plus the index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PLACES);
	__type(key, struct connection);
	__type(value, __u32);
} connections SEC(".maps");

/* Connections; those below `known` are in use. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct connection);
} places SEC(".maps");

static long until(__u32 step, __u64 *due)
{
	return bpf_ktime_get_ns() >= *due;
}

/* Return whether the bucket has a token for this frame. */
static __always_inline int admits(struct state *s)
{
	__u64 now = bpf_ktime_get_ns(), most = depth * 1000000000ULL;
	int yes = 0;

	bpf_spin_lock(&s->lock);
	if (s->last_ns == 0)
		s->tokens = most;
	else
		s->tokens += (now - s->last_ns) * n;
	if (s->tokens > most)
		s->tokens = most;
	s->last_ns = now;
	if (s->tokens >= 1000000000ULL) {
		s->tokens -= 1000000000ULL;
		yes = 1;
	}
	bpf_spin_unlock(&s->lock);
	return yes;
}

/* The frame before last waits in the map; when the last has gone out, its bytes are replaced by those of the waiting
 * one. */
static __always_inline int swap(struct __sk_buff *skb, struct state *s, __u64 place)
{
	__u32 zero = 0, len = skb->len;
	struct held *h = bpf_map_lookup_elem(&device_held, &zero);

	if (!h || len == 0 || len > FRAME_MAX)
		return TC_ACT_SHOT;
	if (place == n - 2) {
		if (bpf_skb_load_bytes(skb, 0, h->bytes, len))
			return TC_ACT_SHOT;
		s->held_len = len;
		return TC_ACT_SHOT;
	}
	bpf_clone_redirect(skb, out_ifindex, 0);
	s->wronged++;
	len = s->held_len;
	if (len == 0 || len > FRAME_MAX || bpf_skb_change_tail(skb, len, 0) || bpf_skb_store_bytes(skb, 0, h->bytes, len, 0))
		return TC_ACT_SHOT;
	return bpf_redirect(out_ifindex, 0);
}

static __always_inline int read_connection(struct __sk_buff *skb, struct connection *c)
{
	return bpf_skb_load_bytes(skb, SOURCE_AT, c, sizeof(*c));
}

/* Replace `address` and `port` by others. IPv4 without options. */
static __always_inline int readdress(struct __sk_buff *skb, __u32 address_at, __u32 address, __u32 to, __u32 port_at, __u16 port,
				     __u16 to_port)
{
	if (bpf_l4_csum_replace(skb, UDP_CSUM_AT, address, to, BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0 | 4) ||
	    bpf_l4_csum_replace(skb, UDP_CSUM_AT, port, to_port, BPF_F_MARK_MANGLED_0 | 2) ||
	    bpf_l3_csum_replace(skb, IP_CSUM_AT, address, to, 4) ||
	    bpf_skb_store_bytes(skb, address_at, &to, sizeof(to), 0) ||
	    bpf_skb_store_bytes(skb, port_at, &to_port, sizeof(to_port), 0))
		return -1;
	return 0;
}

/* Return the index of a connection, a new one if it has none; NULL if there is no room or the rate limit is reached. */
static __always_inline const __u32 *placed(struct state *s, const struct connection *c)
{
	const __u32 *known = bpf_map_lookup_elem(&connections, c);
	__u32 place;

	if (known)
		return known;
	if (s->known >= most || s->known >= PLACES || !admits(s))
		return NULL;
	place = __sync_fetch_and_add(&s->known, 1);
	if (bpf_map_update_elem(&places, &place, c, BPF_ANY) || bpf_map_update_elem(&connections, c, &place, BPF_NOEXIST))
		return NULL;
	return bpf_map_lookup_elem(&connections, c);
}

static __always_inline int translate(struct __sk_buff *skb, struct state *s)
{
	struct connection c;
	const __u32 *place;

	if (read_connection(skb, &c))
		return TC_ACT_SHOT;
	place = placed(s, &c);
	if (!place) {
		__sync_fetch_and_add(&s->wronged, 1);
		return TC_ACT_SHOT;
	}
	if (readdress(skb, SOURCE_AT, c.source, public_address ?: c.source, SOURCE_PORT_AT, c.source_port,
		      bpf_htons(FIRST_PORT + *place)))
		return TC_ACT_SHOT;
	return bpf_redirect(out_ifindex, 0);
}

SEC("classifier")
int device(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct state *s = bpf_map_lookup_elem(&device_state, &zero);
	__u64 place, now, due = 0;
	__u8 protocol = 0, last;

	if (!s || skb->protocol != bpf_htons(0x0800) || bpf_skb_load_bytes(skb, 23, &protocol, 1) || protocol != 17)
		return TC_ACT_OK;
	place = __sync_fetch_and_add(&s->seen, 1);
	if (kind == TRANSLATES)
		return translate(skb, s);
	if (kind == POLICES) {
		if (!admits(s)) {
			__sync_fetch_and_add(&s->wronged, 1);
			return TC_ACT_SHOT;
		}
	} else if (kind == HOLDS) {
		if (bpf_skb_load_bytes(skb, STAMP_AT, &due, 8))
			return TC_ACT_SHOT;
		now = bpf_ktime_get_ns();
		due = now - ((__s64)((now - bpf_be64_to_cpu(due)) << (64 - TIME_BITS)) >> (64 - TIME_BITS)) + n;
		bpf_loop(SPIN_STEPS, until, &due, 0);
	} else if (n) {
		place %= n;
		if (kind == SWAPS) {
			if (place >= n - 2)
				return swap(skb, s, place);
		} else if (place == n - 1) {
			__sync_fetch_and_add(&s->wronged, 1);
			if (kind == DROPS)
				return TC_ACT_SHOT;
			if (kind == DUPLICATES)
				bpf_clone_redirect(skb, out_ifindex, 0);
			if (kind == CORRUPTS && skb->len > 60) {
				if (bpf_skb_load_bytes(skb, skb->len - 1, &last, 1))
					return TC_ACT_SHOT;
				last ^= 1;
				bpf_skb_store_bytes(skb, skb->len - 1, &last, 1, 0);
			}
		}
	}
	return bpf_redirect(out_ifindex, 0);
}

/* Reverse direction of a translator: accepts frames of known connections, from the other end of each, and no others. */
SEC("classifier")
int answer(struct __sk_buff *skb)
{
	__u32 zero = 0, place;
	struct state *s = bpf_map_lookup_elem(&device_state, &zero);
	struct connection c, *known;
	__u8 protocol = 0;

	if (!s || skb->protocol != bpf_htons(0x0800) || bpf_skb_load_bytes(skb, 23, &protocol, 1) || protocol != 17)
		return TC_ACT_OK;
	if (read_connection(skb, &c))
		return TC_ACT_SHOT;
	place = bpf_ntohs(c.destination_port) - FIRST_PORT;
	known = bpf_map_lookup_elem(&places, &place);
	if (!known || place >= s->known || known->destination != c.source || known->destination_port != c.source_port)
		return TC_ACT_SHOT;
	if (readdress(skb, DESTINATION_AT, c.destination, known->source, DESTINATION_PORT_AT, c.destination_port, known->source_port))
		return TC_ACT_SHOT;
	return bpf_redirect(back_ifindex, 0);
}

char _license[] SEC("license") = "GPL";
