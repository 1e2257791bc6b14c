/* SPDX-License-Identifier: Apache-2.0 */
/* Due times of frames. */
#ifndef DUTLAB_PACE_H
#define DUTLAB_PACE_H

#include "due.h"
#include "tables.h"

#define SPIN_NS 20000 /* softirqs of this CPU wait meanwhile */
#define SPIN_STEPS 1024
#define CLOCK_EVERY 16 /* unpaced: the clock is read for each n-th frame; frames of a batch leave together anyway */
#define MAX_LAG_NS (100 * 1000 * 1000) /* HELD_MOST_NS of sender.rs */

/* Features of a program. Each program of sender.bpf.c is `send` with other constants, so that the simplest trial,
 * one stream of equal frames at full speed, has no overhead for the others. `send_plain` is written out. */
struct mode {
	__u32 lanes;
	__u8 paced, one_shape, plain, flows, log, gaps, bursts;
};

struct wait {
	__u64 due, until, now;
};

static long one_look(__u32 step, struct wait *w)
{
	w->now = bpf_ktime_get_ns();
	return w->now >= w->until;
}

/* Wait until `due`, or for a while; return the time then. */
static __always_inline __u64 spin(__u64 due, __u64 now)
{
	struct wait w = {.due = due, .until = now + SPIN_NS, .now = now};

	if (due < w.until)
		w.until = due;
	bpf_loop(SPIN_STEPS, one_look, &w, 0);
	return w.now;
}

static __always_inline int halt(struct control *c, __u32 why, __u64 now)
{
	if (!c->halt)
		c->halt = why;
	if (!c->ended_ns)
		c->ended_ns = now;
	return XDP_DROP;
}

/* Return the time at which the lane's next frame is due. A burst that has begun is due at once. */
static __always_inline __u64 due_of(const struct mode m, const struct lane *l)
{
	if (!l->frames_left)
		return ~0ULL;
	if (!m.paced || (m.bursts && l->at.burst_left))
		return l->at.last_ns;
	return next_due(l);
}

/* Advance the lane past the frame that is sent now. Frames that are later than MAX_LAG_NS are skipped and counted as
 * missed. */
static __always_inline void advance(const struct mode m, struct lane *l, __u64 due, __u64 now, __u64 end)
{
	__u64 missed;

	l->frames_left--;
	if (!m.paced && m.lanes == 1)
		return;
	missed = l->at.missed;
	if (m.bursts && l->at.burst_left) {
		l->at.burst_left--;
	} else if (!l->gap_q24) {
		l->at.last_ns = now;
	} else {
		if (now - due > l->late_max_ns)
			l->late_max_ns = now - due;
		move_on(l, due, now, end, MAX_LAG_NS);
		if (m.bursts)
			l->at.burst_left = l->burst - 1;
	}
	if (unlikely(l->behind_ns)) {
		l->at.kept_out += l->at.missed - missed;
		if (l->held)
			l->held--;
		if (!l->held && due_of(m, l) > now)
			l->behind_ns = 0;
	}
}

/* Record the time since the previous frame of a lane, whose entry is the `at`th; return the row. */
static __always_inline __u32 note_gap(struct lane *l, __u32 at, __u64 now)
{
	__u32 row = ~0U;
	__u64 *n;

	if (l->at.sent_at_ns) {
		row = at * BUCKETS(GAP_STEPS_LOG2) + bucket_of(now - l->at.sent_at_ns, GAP_STEPS_LOG2);
		n = bpf_map_lookup_elem(&gaps, &row);
		if (n)
			*n += 1;
	}
	l->at.sent_at_ns = now;
	return row;
}

/* Return the time for a frame that is due at `due`. A frame of the only lane that was due at the last reading of its
 * batch needs no other: the frames of a batch leave together anyway. Of several lanes some may be at full speed, which
 * take turns by their times, so each frame reads the clock. Unpaced programs read it for each n-th frame, because
 * reading costs a fifth of a frame. Their frames that share a reading count as a nanosecond apart, so that lanes take
 * turns: the one that waits longest is next. */
static __always_inline __u64 time_now(const struct mode m, struct control *c, __u32 slot, __u64 due)
{
	if (m.paced) {
		if (m.lanes != 1 || slot == 0 || due > c->now_ns)
			c->now_ns = bpf_ktime_get_ns();
		return c->now_ns;
	}
	if (c->clock_age == 0) {
		c->now_ns = bpf_ktime_get_ns();
		c->clock_age = CLOCK_EVERY;
	}
	c->clock_age--;
	return m.lanes == 1 ? c->now_ns : c->now_ns + (CLOCK_EVERY - 1 - c->clock_age);
}

#endif
