/* SPDX-License-Identifier: Apache-2.0 */
/* Claimed sender of a frame. */
#ifndef DUTLAB_SOURCE_H
#define DUTLAB_SOURCE_H

#include "frame.h"

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

#endif
