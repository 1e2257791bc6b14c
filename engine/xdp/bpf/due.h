/* SPDX-License-Identifier: Apache-2.0 */
/* Due times of a lane's frames, in integer arithmetic: no fraction of a nanosecond is lost, however long the lane
 * runs and however often it stalls. Independent of BPF, so that a test can compile it for the host. */
#ifndef DUTLAB_DUE_H
#define DUTLAB_DUE_H

#include "contract.h"

#define FRACTION ((1ULL << 24) - 1)
/* Maximum time that a lane skips in one step (18 minutes), so that nothing below overflows; the next frame skips the
 * rest. */
#define SKIP_MOST_NS ((1ULL << 40) - 1)
#define GRACE_NS (10 * 1000 * 1000)

/* Return the due time of the next frame, or burst, in whole nanoseconds. */
static inline __attribute__((always_inline)) __u64 next_due(const struct lane *l)
{
	return l->at.last_ns + ((l->gap_q24 + l->at.last_frac) >> 24);
}

/* Advance the lane past the frame, or burst, that is due at `due`, before `end`, and is sent now. If that is more
 * than `max_lag_ns` late, all later ones that are due by now and before `end` are skipped, and count as missed. */
static inline __attribute__((always_inline)) void move_on(struct lane *l, __u64 due, __u64 now, __u64 end, __u64 max_lag_ns)
{
	__u64 gap = *(volatile __u64 *)&l->gap_q24; /* user space may change it meanwhile */
	__u64 late = now - due, fraction = (gap + l->at.last_frac) & FRACTION;

	if (__builtin_expect(late > max_lag_ns, 0)) {
		if (now >= end)
			late = end - 1 - due; /* frames that are due at the end or later are not asked for */
		__u64 skipped = ((late < SKIP_MOST_NS ? late : SKIP_MOST_NS) << 24) / gap;
		__u64 beyond = skipped * gap; /* at most the number that was divided */

		l->at.missed += skipped * l->burst;
		fraction += beyond & FRACTION;
		due += (beyond >> 24) + (fraction >> 24);
		fraction &= FRACTION;
	}
	l->at.last_frac = fraction;
	l->at.last_ns = due;
}

/* Return whether it is too late, at `now` after the end, to send frames that were due before the end. This thread
 * may just have lost its CPU, or the thread that empties the device's ring: both have GRACE_NS from when this thread
 * runs again. A thread that is merely too slow reads the clock continuously, and has GRACE_NS from the end. A lane
 * that was behind for so long before the end is held back by the load itself. */
static inline __attribute__((always_inline)) int too_late(const struct lane *l, __u64 *seen_end_ns, __u64 now, __u64 end)
{
	if (!*seen_end_ns)
		*seen_end_ns = now;
	return now - *seen_end_ns >= GRACE_NS || (l->held && l->behind_ns + GRACE_NS < end);
}

#endif
