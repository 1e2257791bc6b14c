// SPDX-License-Identifier: Apache-2.0
// Router in XDP: looks up the route of each frame in the kernel's table and forwards it from the port of the route. The kernel gets all
// frames without a route or a known neighbour, with an expiring TTL, or not plain IP, as without XDP. No header of libbpf is needed: the
// few definitions of the kernel's interface (include/uapi/linux/bpf.h) are repeated here.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

struct bpf_fib_lookup {
	u8 family, l4_protocol;
	u16 sport, dport, tot_len;
	u32 ifindex, tos;
	u32 src[4], dst[4];
	u16 vlan_proto, vlan_tci;
	u8 smac[6], dmac[6];
};
_Static_assert(sizeof(struct bpf_fib_lookup) == 64, "the kernel's structure");

static long (*bpf_redirect)(u32 ifindex, unsigned long long flags) = (void *)23;
static long (*bpf_fib_lookup)(void *ctx, struct bpf_fib_lookup *params, int len, u32 flags) = (void *)69;

#define XDP_PASS 2
#define AF_INET 2
#define AF_INET6 10
#define ETH_LEN 14
#define IPV4 0x0008 /* 0x0800 and 0x86dd on a little-endian machine */
#define IPV6 0xdd86

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a machine that reads the other way");

__attribute__((section("xdp"), used)) int dutlab_forward(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end, *ip = data + ETH_LEN;
	struct bpf_fib_lookup to = {.ifindex = ctx->ingress_ifindex};
	u16 type;

	if (ip + 20 > end)
		return XDP_PASS;
	type = *(u16 *)(data + 12);
	if (type == IPV4) {
		if (ip[0] != 0x45 || ip[8] <= 1)
			return XDP_PASS;
		to.family = AF_INET;
		to.tos = ip[1];
		to.l4_protocol = ip[9];
		to.tot_len = ip[2] << 8 | ip[3];
		to.src[0] = *(u32 *)(ip + 12);
		to.dst[0] = *(u32 *)(ip + 16);
	} else if (type == IPV6) {
		if (ip + 40 > end || ip[7] <= 1)
			return XDP_PASS;
		to.family = AF_INET6;
		to.tos = *(u32 *)ip & 0xffffff0f; /* traffic class and flow label, in network byte order */
		to.l4_protocol = ip[6];
		to.tot_len = (ip[4] << 8 | ip[5]) + 40;
		for (int i = 0; i < 4; i++) {
			to.src[i] = *(u32 *)(ip + 8 + 4 * i);
			to.dst[i] = *(u32 *)(ip + 24 + 4 * i);
		}
	} else {
		return XDP_PASS;
	}
	if (bpf_fib_lookup(ctx, &to, sizeof(to), 0) != 0)
		return XDP_PASS;
	if (type == IPV4) {
		/* TTL less 1: the checksum, a complement, increases by 1 in the upper byte (RFC 1141). */
		u32 sum = *(u16 *)(ip + 10) + 1u;

		*(u16 *)(ip + 10) = (u16)(sum + (sum >> 16));
		ip[8]--;
	} else {
		ip[7]--;
	}
	for (int i = 0; i < 6; i++) {
		data[i] = to.dmac[i];
		data[6 + i] = to.smac[i];
	}
	return (int)bpf_redirect(to.ifindex, 0);
}

char _license[] __attribute__((section("license"), used)) = "GPL";
