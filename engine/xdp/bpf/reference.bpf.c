// SPDX-License-Identifier: Apache-2.0
// Limits of the kernel alone: the yardsticks for the sender and the receiver. They carry no probe, keep no sequence and
// take no time.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 egress_ifindex;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} reference_count SEC(".maps");

/* A live-frame run of this sends the given frame, unchanged, as fast as the kernel goes. */
SEC("xdp")
int bare_send(struct xdp_md *ctx)
{
	return bpf_redirect(egress_ifindex, 0);
}

/* Leaves every frame to the kernel: a placeholder for a program. */
SEC("xdp")
int bare_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* Counts a frame and drops it. */
SEC("xdp")
int bare_drop(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&reference_count, &zero);

	if (count)
		*count += 1;
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
