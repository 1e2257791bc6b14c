/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums and histograms. Independent of BPF, so that a test can compile it for the host. */
#ifndef DUTLAB_SUMS_H
#define DUTLAB_SUMS_H

#include "contract.h"

/* Return the sum of both halves of a word: it folds to the same 16 bits. */
static inline __attribute__((always_inline)) __u64 halves(__u64 word)
{
	__u32 low = (__u32)word;

#ifdef __bpf__
	asm("%0 = %0" : "+w"(low)); /* clears the upper half, for which clang would shift twice */
#endif
	return low + (word >> 32);
}

/* RFC 1071: a 32-bit sum of native-endian words, folded to 16 bits. Only a sum of 0 gives 0. The product has the sum of
 * both halves, with its carry, in the bits from 32 on. */
static inline __attribute__((always_inline)) __u16 fold32(__u32 sum)
{
	return (__u16)(sum * 0x100010001ULL >> 32);
}

/* The same for 64 bits. */
static inline __attribute__((always_inline)) __u16 fold(__u64 sum)
{
	return fold32((__u32)halves(halves(sum)));
}

/* Return the histogram's bucket of a value: exact below 2^steps_log2, then that many steps an octave. Call it with a
 * constant `steps_log2`: the kernel makes five instructions of a shift by a variable. */
static inline __attribute__((always_inline)) __u32 bucket_of(__u64 value, const __u32 steps_log2)
{
	__u32 shift = 0;
	__u64 v = value;

	if (__builtin_expect(v >> TOP_LOG2, 0))
		return BUCKETS(steps_log2) - 1;
	if (v >= 1ULL << (steps_log2 + 16)) {
		shift = 16;
		v >>= 16;
	}
	if (v >= 1ULL << (steps_log2 + 8)) {
		shift += 8;
		v >>= 8;
	}
	if (v >= 1ULL << (steps_log2 + 4)) {
		shift += 4;
		v >>= 4;
	}
	if (v >= 1ULL << (steps_log2 + 2)) {
		shift += 2;
		v >>= 2;
	}
	if (v >= 1ULL << (steps_log2 + 1)) {
		shift += 1;
		v >>= 1;
	}
	return (shift << steps_log2) + (__u32)v;
}

#endif
