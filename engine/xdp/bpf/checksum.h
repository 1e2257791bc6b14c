/* SPDX-License-Identifier: Apache-2.0 */
/* Check that a frame arrived as it was sent. */
#ifndef DUTLAB_CHECKSUM_H
#define DUTLAB_CHECKSUM_H

#include "frame.h"

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
	if (left > CHUNK)
		left = CHUNK;
	/* Verifiers up to Linux 6.2 do not derive the range 1 to CHUNK, neither from `left == 0` nor from what the compiler
	 * knows. */
	left--;
	barrier_var(left);
	left = (left & (CHUNK - 1)) + 1;
	if (bpf_xdp_load_bytes(s->ctx, s->at, bytes, left))
		goto fail;
	for (int w = 0; w < CHUNK / 8; w++)
		s->sum += halves(words[w]);
	s->at += left;
	return 0;
fail:
	s->failed = 1;
	return 1;
}

/* Return whether the transport checksum is right. 0 in UDP over IPv4 means that there is none (RFC 768). */
__noinline int is_sound(struct xdp_md *ctx)
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
		s.end = f->l3 + 40 + length;
		length = s.end - f->l4;
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

/* Return the sum of `left` bytes behind the shortest frame, or SUM_UNKNOWN if they are not contiguous. 512 bytes is
 * the limit of bpf_csum_diff on kernels before 6.13. */
#define SUM_UNKNOWN (~0ULL)
#define SHORTEST 60

#define ADD(n)                                              \
	do {                                                \
		if (p + (n) > data_end)                     \
			return SUM_UNKNOWN;                 \
		sum += (__u32)bpf_csum_diff(NULL, 0, p, (n), 0); \
		p += (n);                                   \
		left -= (n);                                \
	} while (0)

__noinline __u64 sum_behind(struct xdp_md *ctx, __u32 left)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *p = (void *)(long)ctx->data + SHORTEST;
	__u64 sum = 0;

	for (int i = 0; i < 8; i++) {
		if (left < 512)
			break;
		ADD(512);
	}
	if (left & 256)
		ADD(256);
	if (left & 128)
		ADD(128);
	if (left & 64)
		ADD(64);
	if (left & 32)
		ADD(32);
	if (left & 16)
		ADD(16);
	if (left & 8)
		ADD(8);
	if (left & 4)
		ADD(4);
	if (left & 2) {
		if (p + 2 > data_end)
			return SUM_UNKNOWN;
		sum += *(__u16 *)p;
		p += 2;
		left -= 2;
	}
	if (left & 1) {
		if (p + 1 > data_end)
			return SUM_UNKNOWN;
		sum += bpf_htons((__u16)*(__u8 *)p << 8);
		left -= 1;
	}
	return left ? SUM_UNKNOWN : sum;
}

/* `is_sound` for UDP over IPv4 without tags or options, of at least SHORTEST bytes: the sum is read in place,
 * instead of chunk by chunk through the stack. */
static __always_inline int is_sound_usual(struct xdp_md *ctx, const void *data)
{
	__u16 length = bpf_ntohs(*(__u16 *)(data + 16));
	__u64 sum, rest = 0;

	if (unlikely(length < SHORTEST - 14))
		return is_sound(ctx);
	if (unlikely(!*(__u16 *)(data + 40)))
		return 1;
	if (length > SHORTEST - 14)
		rest = sum_behind(ctx, length - (SHORTEST - 14));
	if (unlikely(rest == SUM_UNKNOWN))
		return is_sound(ctx);
	/* The pseudo header: addresses, which are in front of the UDP header, protocol and length. */
	sum = rest + bpf_htons(length - 20) + bpf_htons(PROTO_UDP) + *(__u16 *)(data + 58);
#pragma unroll
	for (int i = 0; i < 8; i++)
		sum += *(__u32 *)(data + 26 + 4 * i);
	return fold(sum) == 0xffff;
}

#endif
