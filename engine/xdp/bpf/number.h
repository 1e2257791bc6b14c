/* SPDX-License-Identifier: Apache-2.0 */
/* Which number a frame of a stream has that CPUs share. Knows nothing of BPF, so that a test can compile it for the machine it runs on, and
 * have as many CPUs as it likes. */
#ifndef DUTLAB_NUMBER_H
#define DUTLAB_NUMBER_H

#include "contract.h"

/* Numbers are drawn in the order of writing, however far one CPU is ahead of the other: so none is left out, and a receiver sees frames
 * overtake by no more than CPUs and queues make them. A paced frame that came back keeps its number. */
static inline __attribute__((always_inline)) __u64 draw_number(struct control *c, __u64 *next, int paced)
{
	if (paced && c->returned_count)
		return c->returned[--c->returned_count & (WRITTEN - 1)];
	return __sync_fetch_and_add(next, 1);
}

/* The last frame that was written and has not come back yet came back; it had this number. */
static inline __attribute__((always_inline)) void give_number_back(struct control *c, __u64 number)
{
	c->returned[c->returned_count++ & (WRITTEN - 1)] = number;
}

#endif
