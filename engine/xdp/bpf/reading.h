/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver's reading of the clock. */
#ifndef DUTLAB_READING_H
#define DUTLAB_READING_H

#include "packet.h"

const volatile __u32 clock_uses = 8; /* frames of one poll that share a reading of the clock */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct reading);
} readings SEC(".maps");

/* Reading the clock costs about as much as accounting for a frame. Within one poll of the queue, frames are handled
 * at most some hundred nanoseconds apart, so a few of them share a reading. The first frame of each poll reads the
 * clock, and so does a frame that was sent after the last reading. Where frames do not come by polls (TAP, generic
 * XDP), each frame reads it: `clock_uses` is 1. */
SEC("tp_btf/napi_poll")
int end_of_poll(void *ctx)
{
	__u32 zero = 0;
	struct reading *r = bpf_map_lookup_elem(&readings, &zero);

	if (r)
		r->uses_left = 0;
	return 0;
}

/* Return the time from one reading to another in ns, of which the low TIME_BITS count: at most 39 hours forward or
 * back. */
static __always_inline __s64 elapsed(__u64 from_ns, __u64 to_ns)
{
	return (__s64)((to_ns - from_ns) << (64 - TIME_BITS)) >> (64 - TIME_BITS);
}

/* Read the clock for a frame that was sent at `sent_ns`; return the time since then. */
static __always_inline __s64 read_clock(__u64 sent_ns, __u64 *now_ns)
{
	__u32 zero = 0, uses = clock_uses;
	struct reading *r = uses > 1 ? bpf_map_lookup_elem(&readings, &zero) : NULL;
	__u64 now, left;
	__s64 age;

	if (r && (left = r->uses_left)) {
		now = r->now_ns;
		age = elapsed(sent_ns, now);
		if (likely(age >= 0)) {
			r->uses_left = left - 1;
			*now_ns = now;
			return age;
		}
	}
	now = bpf_ktime_get_ns();
	if (r) {
		r->now_ns = now;
		r->uses_left = uses - 1;
	}
	*now_ns = now;
	return elapsed(sent_ns, now);
}

/* Discard the reading: the stack's handling of a passed frame takes time. */
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

#endif
