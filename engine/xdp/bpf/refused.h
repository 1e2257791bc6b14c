/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that the device took, and frames that it refused. */
#ifndef DUTLAB_REFUSED_H
#define DUTLAB_REFUSED_H

#include "number.h"
#include "tables.h"

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

const volatile __u32 egress_netns; /* inode of the network namespace to which egress_ifindex refers */
const volatile __u64 pidns_device, pidns_inode; /* of the sender's pid namespace */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct refusals);
} refusals SEC(".maps");

struct blame {
	__u32 row, at;
};

static long blame_one(__u32 i, const struct blame *b)
{
	__u32 row = b->row, at = row * SENT_LOG + ((b->at + i) & (SENT_LOG - 1));
	const __u32 *lane = bpf_map_lookup_elem(&sent_log, &at);
	struct control *c = bpf_map_lookup_elem(&control, &row);

	if (lane && c)
		c->lanes[*lane & (MAX_LANES - 1)].stream.refused++;
	return 0;
}

/* Undo the paced frame that was written `i` frames before the last one: it is due as before, and offered again with
 * the same number. A lane at full speed has no due frames; there the frame stays refused, and its number used up.
 * User space may steer the lane meanwhile; then it steers it again. */
static long take_back(__u32 i, const struct blame *b)
{
	__u32 row = b->row, gap_row;
	struct control *c = bpf_map_lookup_elem(&control, &row);
	struct written *w;
	struct stream *s;
	struct lane *l;
	__u64 *n;

	if (!c)
		return 1;
	w = &c->written[(c->log_head - 1 - i) & (WRITTEN - 1)];
	l = &c->lanes[w->lane & (MAX_LANES - 1)];
	s = &l->stream;
	if (!l->gap_q24) {
		s->refused++;
		return 0;
	}
	gap_row = w->gap_row;
	n = bpf_map_lookup_elem(&gaps, &gap_row);
	if (n)
		*n -= 1;
	if (split)
		give_number_back(c, w->number);
	s->sequence--;
	s->bytes = w->bytes;
	s->order_at = w->order_at;
	s->flow_at = w->flow_at;
	l->at = w->lane_at;
	l->frames_left++;
	l->held++;
	if (!l->behind_ns)
		l->behind_ns = bpf_ktime_get_ns();
	c->begun_ns = w->begun_ns;
	return 0;
}

/* Return the state of the sender if it is the calling thread: others may redirect to the same interface. */
static __always_inline struct refusals *ours(__u32 row)
{
	struct bpf_pidns_info who = {};
	struct refusals *r = bpf_map_lookup_elem(&refusals, &row);

	if (!r || bpf_get_ns_current_pid_tgid(pidns_device, pidns_inode, &who, sizeof(who)) || who.pid != r->tid)
		return NULL;
	return r;
}

static __always_inline int is_egress(const struct net_device *dev)
{
	return dev->nd_net.net->ns.inum == egress_netns && dev->ifindex == (int)egress_ifindex;
}

/* Runs on the sender's CPU each time the kernel hands a bulk of at most 16 frames to the driver. The driver takes them
 * in order and stops at the first that does not fit, so the refused ones are the last. A bulk goes out at the end of a
 * batch, or when the frame after it has been written already: in the middle of a batch, which then is full (paced
 * batches are no longer than a bulk, so nothing is written between a paced frame and its refusal but its own batch). */
SEC("tp_btf/xdp_devmap_xmit")
int note_refused(__u64 *args)
{
	int drops = (int)args[3];
	struct blame b = {.row = row_here()};
	struct refusals *r;

	if (likely(drops <= 0))
		return 0;
	if (!is_egress((const struct net_device *)args[1]))
		return 0;
	r = ours(b.row);
	if (!r)
		return 0;
	r->by_driver += drops;
	r->last_error = (int)args[4] < 0 ? -(int)args[4] : 0;
	if (paced) {
		bpf_loop(drops, take_back, &b, 0);
	} else if (keep_log) {
		struct control *c = bpf_map_lookup_elem(&control, &b.row);

		if (!c)
			return 0;
		b.at = c->log_head - drops - (c->slot != 0);
		bpf_loop(drops, blame_one, &b, 0);
	}
	return 0;
}

/* Runs for a frame that the kernel could not even queue. It is the last one that was written. */
SEC("tp_btf/xdp_redirect_err")
int note_unreached(__u64 *args)
{
	struct blame b = {.row = row_here()};
	struct refusals *r = ours(b.row);

	if (!r)
		return 0;
	r->before++;
	r->last_error = (int)args[3] < 0 ? -(int)args[3] : 0;
	if (paced || keep_log) {
		struct control *c = bpf_map_lookup_elem(&control, &b.row);

		if (!c)
			return 0;
		if (paced) {
			take_back(0, &b);
			c->log_head--; /* it is in no bulk */
			return 0;
		}
		b.at = c->log_head - 1;
		blame_one(0, &b);
	}
	return 0;
}

#endif
