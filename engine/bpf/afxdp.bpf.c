// SPDX-License-Identifier: Apache-2.0
// Hands frames with our probe to the AF_XDP socket of their queue, stamped with the time of their arrival; all others go
// on to the host as if nothing were attached.
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAGIC 0xd17a		/* the first two bytes of a probe */
#define PROBE 18		/* bytes of a probe */
#define STAMPED 0x646c2d7374616d70ULL /* "this is our stamp", in front of the time */

/* Socket of each receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* Frames that were left to the host. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} passed SEC(".maps");

struct stamp {
	__u64 stamped;
	__u64 at_ns;
};

static __always_inline int is_tag(__u16 type)
{
	return type == bpf_htons(0x8100) || type == bpf_htons(0x88a8) || type == bpf_htons(0x9100);
}

/* Whether a probe stands where the payload begins: Ethernet, up to four tags, IPv4 with options or IPv6, UDP, TCP with
 * options, or ICMP. */
static __always_inline int ours(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 at = 14;
	__u8 protocol;
	__u16 type;

	if (data + 14 > end)
		return 0;
	type = *(__u16 *)(data + 12);
#pragma unroll
	for (int i = 0; i < 4; i++) {
		if (!is_tag(type))
			break;
		if (data + at + 4 > end)
			return 0;
		type = *(__u16 *)(data + at + 2);
		at += 4;
	}
	if (type == bpf_htons(0x0800)) {
		if (data + at + 20 > end)
			return 0;
		if (*(__u16 *)(data + at + 6) & bpf_htons(0x1fff)) /* a later fragment begins with no header */
			return 0;
		protocol = *(__u8 *)(data + at + 9);
		at += (*(__u8 *)(data + at) & 15) * 4;
	} else if (type == bpf_htons(0x86dd)) {
		if (data + at + 40 > end)
			return 0;
		protocol = *(__u8 *)(data + at + 6);
		at += 40;
	} else {
		return 0;
	}
	if (protocol == 17 || protocol == 1 || protocol == 58) {
		at += 8;
	} else if (protocol == 6) {
		if (data + at + 13 > end)
			return 0;
		at += (*(__u8 *)(data + at + 12) >> 4) * 4;
	} else {
		return 0;
	}
	if (at > 255 || data + at + PROBE > end)
		return 0;
	return *(__u16 *)(data + at) == bpf_htons(MAGIC);
}

SEC("xdp")
int take_ours(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u64 *count;

	if (ours(ctx)) {
		/* A driver that has no room in front of the frame leaves it without a stamp. */
		if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct stamp)) == 0) {
			struct stamp *stamp = (void *)(long)ctx->data_meta;

			if ((void *)(stamp + 1) <= (void *)(long)ctx->data) {
				stamp->stamped = STAMPED;
				stamp->at_ns = bpf_ktime_get_ns();
			}
		}
		return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
	}
	count = bpf_map_lookup_elem(&passed, &zero);
	if (count)
		*count += 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
