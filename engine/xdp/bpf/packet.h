/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for checksums and histograms that several programs use. */
#ifndef DUTLAB_PACKET_H
#define DUTLAB_PACKET_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "contract.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* RFC 1071: a 64-bit sum of native-endian words, folded to 16 bits. */
static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

static __always_inline __u64 halves(__u64 word)
{
	return (word & 0xffffffff) + (word >> 32);
}

/* Return the histogram's bucket of a value: exact below 2^steps_log2, then that many steps an octave. */
static __always_inline __u32 bucket_of(__u64 value, __u32 steps_log2)
{
	__u32 shift = 0;
	__u64 v = value;

	if (v >> TOP_LOG2)
		return BUCKETS(steps_log2) - 1;
	if (v >> (steps_log2 + 17)) {
		shift += 16;
		v >>= 16;
	}
	if (v >> (steps_log2 + 9)) {
		shift += 8;
		v >>= 8;
	}
	if (v >> (steps_log2 + 5)) {
		shift += 4;
		v >>= 4;
	}
	if (v >> (steps_log2 + 3)) {
		shift += 2;
		v >>= 2;
	}
	if (v >> (steps_log2 + 2)) {
		shift += 1;
		v >>= 1;
	}
	if (v >> (steps_log2 + 1)) {
		shift += 1;
		v >>= 1;
	}
	return (shift << steps_log2) + (__u32)v;
}

#endif
