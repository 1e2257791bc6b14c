/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a frame onto its page. */
#ifndef DUTLAB_WRITE_H
#define DUTLAB_WRITE_H

#include "number.h"
#include "pace.h"

#define COPY(n)                                                                    \
	do {                                                                       \
		_Pragma("unroll") for (int i = 0; i < (n) / 8; i++)                \
			((__u64 *)to)[i] = ((const __u64 *)from)[i];               \
		if ((n) % 8)                                                       \
			((__u32 *)to)[(n) / 4 - 1] = ((const __u32 *)from)[(n) / 4 - 1]; \
	} while (0)

/* Copy headers and probe. The lengths named here need no comparison: the verifier knows which one it is. */
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

/* Return the part of a frame at `at`, `len` bytes long, or NULL. */
static __always_inline void *part(void *data, void *data_end, __u32 at, __u32 len)
{
	void *p = data + (at & (HEAD_MAX - 1));

	return p + len > data_end ? NULL : p;
}

/* Write addresses and ports of the stream's next flow; return their part of the checksum. */
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

/* Return the number of the frame that is written next. Flow and shape follow from it on any CPU. */
static __always_inline __u64 next_number(const struct mode m, struct control *c, struct stream *s)
{
	__u64 number = s->sequence, *next;
	__u32 counter;

	if (!split)
		return number;
	counter = s->counter;
	next = bpf_map_lookup_elem(&numbers, &counter);
	if (next)
		number = draw_number(c, next, m.paced);
	if (m.flows && s->flows)
		s->flow_at = number % s->flows;
	if (!m.one_shape && s->orders)
		s->order_at = number % s->orders;
	return number;
}

/* Write the bytes behind the copied head where the receiver of the page may have written to them, and cut the frame to
 * its length. */
static __always_inline int write_rest(struct xdp_md *ctx, const struct shape *sh, __u32 len, int cut)
{
	if (rewrite_payload && sh->length > len) {
		__u32 zero = 0, rest = sh->length - len;
		struct payload *p = bpf_map_lookup_elem(&payloads, &zero);

		if (!p || rest == 0 || rest > PAYLOAD_MAX || bpf_xdp_store_bytes(ctx, len, p->bytes, rest))
			return -1;
	}
	if (cut && sh->length < data_len)
		return bpf_xdp_adjust_tail(ctx, (int)sh->length - (int)data_len);
	return 0;
}

/* Return the time of writing as it is in the probe. */
static __always_inline __u64 stamp_of(__u64 now)
{
	return bpf_cpu_to_be64((now & TIME_MASK) | trial << TIME_BITS);
}

/* Write a plain frame, whose places are known to the compiler. `stamped` is the sum without the number. */
static __always_inline int write_plain(struct xdp_md *ctx, const struct shape *sh, __u64 number, __u64 stamp, __u64 stamped)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u64 sequence = bpf_cpu_to_be64(number << 16), *to = data;
	const __u64 *from = (const __u64 *)sh->head;
	__u16 sum;

	if (data + PLAIN_LEN > data_end)
		return -1;
#pragma unroll
	for (int i = 0; i < PLAIN_SUM_AT / 8; i++)
		to[i] = from[i];
	/* Magic number and stream. */
	*(__u32 *)(data + PLAIN_PROBE_AT) = *(const __u32 *)(sh->head + PLAIN_PROBE_AT);
	/* The second store overwrites the two surplus bytes of the first. */
	*(__u64 *)(data + PLAIN_PROBE_AT + PROBE_SEQUENCE_AT) = sequence;
	*(__u64 *)(data + PLAIN_PROBE_AT + PROBE_STAMP_AT) = stamp;
	sum = ~fold(stamped + halves(sequence));
	*(__u16 *)(data + PLAIN_SUM_AT) = sum ?: 0xffff;
	return write_rest(ctx, sh, PLAIN_LEN, cut_each);
}

static __always_inline int write_frame(const struct mode m, struct xdp_md *ctx, struct stream *s, const struct shape *sh,
				       __u64 number, __u64 now)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u64 sequence = bpf_cpu_to_be64(number << 16), stamp = stamp_of(now);
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
	/* The second store overwrites the two surplus bytes of the first. */
	*(__u64 *)(probe + PROBE_SEQUENCE_AT) = sequence;
	*(__u64 *)(probe + PROBE_STAMP_AT) = stamp;
	value = ~fold(sum + halves(sequence) + halves(stamp));
	if (!value && (sh->flags & SHAPE_UDP))
		value = 0xffff;
	*at = value;
	return write_rest(ctx, sh, len, !m.one_shape || cut_each);
}

#endif
