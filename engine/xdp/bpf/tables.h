/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and counters of a sender: constants that are set before loading, and maps. */
#ifndef DUTLAB_TABLES_H
#define DUTLAB_TABLES_H

#include "packet.h"

const volatile __u32 egress_ifindex;
const volatile __u32 batch = 16;
const volatile __u32 lane_count = 1; /* lanes of each CPU */
const volatile __u32 head_len;	    /* bytes of a head to copy: headers and probe of the longest, a multiple of 4 */
const volatile __u32 data_len;	    /* length of the pages: the longest frame, plus one byte if `cut_each` is set */
const volatile __u8 paced;	    /* any lane has a gap */
const volatile __u8 fixed_probe_at; /* the same in all shapes, or 0 */
const volatile __u8 fixed_sum_at;
const volatile __u8 keep_log;	    /* remember the lane of each frame, for the places of refusals */
const volatile __u8 rewrite_payload; /* the receiver of a page may write to it: veth */
const volatile __u8 cut_each;	     /* so that the kernel rebuilds its metadata of a page when it comes back */
const volatile __u8 several;	     /* several CPUs send, each with its own row in the maps of lanes */
const volatile __u8 split;	     /* CPUs share streams, and draw their numbers from one counter; each CPU has one lane then */
const volatile __u64 trial;	    /* number in each probe, below 2^16 */

/* Row of each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

/* The next number of each stream that CPUs share. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shape);
} shapes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow4);
} flows4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow6);
} flows6 SEC(".maps");

/* Bytes behind the head in every frame. */
struct payload {
	__u8 bytes[PAYLOAD_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct payload);
} payloads SEC(".maps");

/* BUCKETS for each lane of each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BUCKETS(GAP_STEPS_LOG2));
	__type(key, __u32);
	__type(value, __u64);
} gaps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SENT_LOG);
	__type(key, __u32);
	__type(value, __u32);
} sent_log SEC(".maps");

/* Return this CPU's row. Sending threads stay on their CPUs where several send; a program on another CPU finds none. */
static __always_inline __u32 row_here(void)
{
	__u32 cpu, *row;

	if (!several)
		return 0;
	cpu = bpf_get_smp_processor_id();
	row = bpf_map_lookup_elem(&rows, &cpu);
	return row ? *row : ~0U;
}

#endif
