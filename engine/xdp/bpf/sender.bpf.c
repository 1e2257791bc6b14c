// SPDX-License-Identifier: Apache-2.0
// Sends a whole trial from inside one BPF_PROG_TEST_RUN call with live frames: the kernel runs this program once for
// each page it could send, and the program decides whether a frame is due, writes it, and redirects it to the card.
//
// A page is recycled with everything that the device under test wrote into it, so all headers of each frame are
// rewritten. The kernel flushes the card's queue at the end of a batch. When no frame is due the program waits, but
// only in the first slot of a batch: in the others it drops the page, so that the batch ends and the written frames
// leave.
//
// The constants in tables.h are set before loading; the verifier removes every branch that they rule out.
#include "refused.h"
#include "write.h"

static __always_inline const struct shape *next_shape(const struct mode m, const struct control *c, struct stream *s)
{
	__u32 at = s->order_first + s->order_at;
	const __u32 *key;

	if (m.one_shape)
		return &c->shape;
	key = bpf_map_lookup_elem(&orders, &at);
	if (++s->order_at >= s->orders)
		s->order_at = 0;
	return key ? bpf_map_lookup_elem(&shapes, key) : NULL;
}

/* End sending; but a paced batch that has begun may come back, so wait for it. */
static __always_inline int end(const struct mode m, struct control *c, __u32 slot, __u32 why, __u64 now)
{
	return m.paced && slot ? XDP_DROP : halt(c, why, now);
}

/* User space ends the call by a signal; until then, do not use up the call's repetitions. */
static __always_inline int halted(struct control *c)
{
	__u64 now = bpf_ktime_get_ns();

	spin(~0ULL, now);
	return halt(c, c->halt, now);
}

static __always_inline int send(struct xdp_md *ctx, const struct mode m)
{
	__u32 row = row_here(), lane = 0, slot = 0, gap_row = ~0U;
	struct control *c = bpf_map_lookup_elem(&control, &row);
	const struct shape *sh;
	struct written *w;
	struct stream *s;
	struct lane *l;
	__u64 now, due, number;

	if (!c)
		return XDP_ABORTED;
	if (m.paced || m.log) {
		slot = c->slot;
		c->slot = slot + 1 >= batch ? 0 : slot + 1;
	}
	if (unlikely(c->halt))
		return halted(c);
	if (m.lanes == 1) {
		due = due_of(m, &c->lanes[0]);
	} else {
		due = ~0ULL;
		for (__u32 i = 0; i < MAX_LANES; i++) {
			__u64 d;

			if (i >= m.lanes)
				break;
			d = due_of(m, &c->lanes[i]);
			if (d < due) {
				due = d;
				lane = i;
			}
		}
	}
	now = time_now(m, c, slot, due);
	if (m.paced && now < due && slot == 0 && due != ~0ULL)
		now = c->now_ns = spin(due < c->end_ns ? due : c->end_ns, now);
	if (unlikely(now >= c->end_ns) &&
	    (!m.paced || due >= c->end_ns || too_late(&c->lanes[lane & (MAX_LANES - 1)], &c->seen_end_ns, now, c->end_ns)))
		return end(m, c, slot, due == ~0ULL ? HALT_ALL_SENT : HALT_TIME_UP, now);
	if (unlikely(now < due)) {
		if (due == ~0ULL)
			return end(m, c, slot, HALT_ALL_SENT, now);
		if (!m.paced)
			c->clock_age = 0;
		return XDP_DROP;
	}
	/* At full speed the log relies on batches that are full. */
	if (m.log && !m.paced && unlikely(!c->begun_ns) && slot != 0)
		return XDP_DROP;

	l = &c->lanes[m.lanes == 1 ? 0 : lane & (MAX_LANES - 1)];
	w = &c->written[c->log_head & (WRITTEN - 1)];
	if (m.paced) {
		w->lane = lane;
		w->lane_at = l->at;
		w->begun_ns = c->begun_ns;
	}
	s = &l->stream;
	if (m.paced) {
		w->bytes = s->bytes;
		w->order_at = s->order_at;
		w->flow_at = s->flow_at;
	}
	number = next_number(m, c, s);
	sh = next_shape(m, c, s);
	if (!sh || (m.plain ? write_plain(ctx, sh, number, stamp_of(now), sh->base + halves(stamp_of(now))) :
			      write_frame(m, ctx, s, sh, number, now)))
		return XDP_ABORTED;
	if (unlikely(!c->begun_ns))
		c->begun_ns = now;
	s->sequence++;
	s->bytes += sh->length;
	if (m.gaps)
		gap_row = note_gap(l, row * m.lanes + lane, now);
	if (m.paced) {
		w->gap_row = gap_row;
		w->number = number;
	}
	if (m.log) {
		__u32 head = row * SENT_LOG + (c->log_head & (SENT_LOG - 1));
		__u32 *entry = bpf_map_lookup_elem(&sent_log, &head);

		if (entry)
			*entry = lane;
	}
	if (m.paced || m.log)
		c->log_head++;
	advance(m, l, due, now, c->end_ns);
	return bpf_redirect(egress_ifindex, 0);
}

/* Look at the clock, and at all that can end sending, for CLOCK_EVERY frames. Return XDP_PASS to send them. */
static __always_inline int look(struct control *c)
{
	__u64 now;

	if (unlikely(c->halt))
		return halted(c);
	now = c->now_ns = bpf_ktime_get_ns();
	if (unlikely(now >= c->end_ns))
		return halt(c, HALT_TIME_UP, now);
	if (unlikely(now < c->lanes[0].at.last_ns))
		return XDP_DROP;
	if (unlikely(!c->begun_ns))
		c->begun_ns = now;
	c->stamp = stamp_of(now);
	c->stamp_sum = c->shape.base + halves(c->stamp);
	c->clock_age = CLOCK_EVERY;
	return XDP_PASS;
}

/* One stream of equal plain frames at full speed. This is `send` without everything that such a trial does not need;
 * it looks for the end at each reading of the clock. */
SEC("xdp")
int send_plain(struct xdp_md *ctx)
{
	__u32 row = row_here();
	struct control *c = bpf_map_lookup_elem(&control, &row);
	struct stream *s;
	struct lane *l;

	if (!c)
		return XDP_ABORTED;
	l = &c->lanes[0];
	s = &l->stream;
	if (unlikely(!l->frames_left))
		return c->halt ? halted(c) : halt(c, HALT_ALL_SENT, bpf_ktime_get_ns());
	if (!c->clock_age) {
		int action = look(c);

		if (action != XDP_PASS)
			return action;
	}
	c->clock_age--;
	l->frames_left--;
	if (write_plain(ctx, &c->shape, next_number((struct mode){.one_shape = 1}, c, s), c->stamp, c->stamp_sum))
		return XDP_ABORTED;
	s->sequence++;
	s->bytes += c->shape.length;
	return bpf_redirect(egress_ifindex, 0);
}

/* One stream of equal frames at full speed, with or without many flows. */
SEC("xdp")
int send_flows(struct xdp_md *ctx)
{
	return send(ctx, (struct mode){.lanes = 1, .one_shape = 1, .flows = 1});
}

/* One stream of equal plain frames at a pace. */
SEC("xdp")
int send_plain_paced(struct xdp_md *ctx)
{
	return send(ctx, (struct mode){.lanes = 1, .paced = 1, .one_shape = 1, .plain = 1, .gaps = 1});
}

/* One stream of equal frames at a pace. */
SEC("xdp")
int send_paced(struct xdp_md *ctx)
{
	return send(ctx, (struct mode){.lanes = 1, .paced = 1, .one_shape = 1, .flows = 1, .gaps = 1});
}

/* All features. */
SEC("xdp")
int send_any(struct xdp_md *ctx)
{
	return send(ctx, (struct mode){.lanes = lane_count,
				       .paced = paced,
				       .one_shape = 0,
				       .flows = 1,
				       .log = 1,
				       .gaps = paced,
				       .bursts = 1});
}

char _license[] SEC("license") = "GPL";
