// SPDX-License-Identifier: Apache-2.0
// Passes frames with our probe to the AF_XDP socket of their queue, stamped with the time of their arrival. All other
// frames go on to the host as if no program were attached.
#include "frame.h"

#define QUEUES 64
#define STAMPED 0x646c2d7374616d70ULL /* "this is our stamp", before the time */

/* Sockets, by receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* Frames that were left to the host, by receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, QUEUES);
	__type(key, __u32);
	__type(value, __u64);
} passed SEC(".maps");

struct stamp {
	__u64 stamped;
	__u64 at_ns;   /* by the kernel's clock */
	__u64 card_ns; /* by the card's clock; 0: unknown to the driver */
};

/* Return the arrival time of the frame from the driver; 0: unknown. This calls the kernel's
 * bpf_xdp_metadata_rx_timestamp, whose number differs between kernels: `engine/xdp/src/af_xdp/timed.rs` puts it into
 * the upper half of the instruction. */
static __always_inline __u64 arrival_by_card(struct xdp_md *ctx)
{
	__u64 at = 0;
	long failed;

	asm volatile("r1 = %[ctx]\n"
		     "r2 = %[at]\n"
		     ".8byte 0x6b66756e00002085\n"
		     "%[failed] = r0\n"
		     : [failed] "=r"(failed)
		     : [ctx] "r"(ctx), [at] "r"(&at)
		     : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
	return failed ? 0 : at;
}

static __always_inline int ours(struct xdp_md *ctx)
{
	struct found f = {};
	__u32 at = find(ctx, &f);
	void *probe = (void *)(long)ctx->data + (at & 0xff);

	return at && probe + PROBE_LEN <= (void *)(long)ctx->data_end && *(__u16 *)probe == bpf_htons(PROBE_MAGIC);
}

static __always_inline int take(struct xdp_md *ctx, int ask_card)
{
	__u32 queue = ctx->rx_queue_index;
	__u64 *count;

	if (ours(ctx)) {
		__u64 card_ns = ask_card ? arrival_by_card(ctx) : 0;

		/* A driver without room in front of the frame leaves it without a stamp. */
		if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct stamp)) == 0) {
			struct stamp *stamp = (void *)(long)ctx->data_meta;

			if ((void *)(stamp + 1) <= (void *)(long)ctx->data) {
				stamp->stamped = STAMPED;
				stamp->at_ns = bpf_ktime_get_ns();
				stamp->card_ns = card_ns;
			}
		}
		return bpf_redirect_map(&sockets, queue, XDP_PASS);
	}
	count = bpf_map_lookup_elem(&passed, &queue);
	if (count)
		*count += 1;
	return XDP_PASS;
}

SEC("xdp")
int take_ours(struct xdp_md *ctx)
{
	return take(ctx, 0);
}

/* As above, for frames that may be in several buffers; their headers are in the first. */
SEC("xdp.frags")
int take_long(struct xdp_md *ctx)
{
	return take(ctx, 0);
}

/* As above, for a card whose driver gives its times. */
SEC("xdp")
int take_timed(struct xdp_md *ctx)
{
	return take(ctx, 1);
}

SEC("xdp.frags")
int take_timed_long(struct xdp_md *ctx)
{
	return take(ctx, 1);
}

char _license[] SEC("license") = "GPL";
