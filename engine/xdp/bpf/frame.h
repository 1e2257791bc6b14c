/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets of the parts of a frame. */
#ifndef DUTLAB_FRAME_H
#define DUTLAB_FRAME_H

#include "packet.h"

#define ETH_IPV4 0x0800
#define ETH_IPV6 0x86dd
#define PROTO_ICMP 1
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_ICMPV6 58
#define EXTENSIONS 4 /* headers of IPv6 that are skipped, as engine/wire/src/extension.rs does */
#define PROTO_HOP_BY_HOP 0
#define PROTO_ROUTING 43
#define PROTO_FRAGMENT 44
#define PROTO_DESTINATION_OPTIONS 60

struct found {
	__u16 l3, l4, probe; /* offsets; probe == 0: not ours */
	__u8 version, protocol, tags;
};

static __always_inline int is_tag(__u16 type)
{
	return type == bpf_htons(0x8100) || type == bpf_htons(0x88a8) || type == bpf_htons(0x9100);
}

static __always_inline int is_extension(__u8 protocol)
{
	return protocol == PROTO_HOP_BY_HOP || protocol == PROTO_ROUTING || protocol == PROTO_FRAGMENT ||
	       protocol == PROTO_DESTINATION_OPTIONS;
}

/* Find the place of a probe: Ethernet, up to four tags, IPv4 with options or IPv6 with extension headers, UDP, TCP
 * with options, ICMP echo. Return its offset, or 0. Not static, like the other functions with many paths: the kernel
 * then verifies it once, not at each call. */
__noinline int find(struct xdp_md *ctx, struct found *f)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 l3 = 14, l4;
	__u16 type;
	__u8 *p;

	if (!f)
		return 0;
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
		for (int i = 0; i < EXTENSIONS && is_extension(f->protocol); i++) {
			p = data + (l4 & 0x7f);
			if ((void *)p + 8 > data_end)
				return 0;
			if (f->protocol == PROTO_FRAGMENT) {
				/* A later fragment need not have a transport header. */
				if (*(__u16 *)(p + 2) & bpf_htons(0xfff9))
					return 0;
				l4 += 8;
			} else {
				l4 += (p[1] + 1) << 3;
			}
			f->protocol = p[0];
			if (l4 > 0x7f)
				return 0;
		}
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

#endif
