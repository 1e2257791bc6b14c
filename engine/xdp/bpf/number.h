/* SPDX-License-Identifier: Apache-2.0 */
/* Frame numbers of a stream that CPUs share. Independent of BPF, so that a test can compile it for the host and use
 * any number of CPUs. */
#ifndef DUTLAB_NUMBER_H
#define DUTLAB_NUMBER_H

#include "contract.h"

/* Numbers are drawn in the order of writing, however far one CPU is ahead of the other. So no number is left out,
 * and a receiver sees frames overtake only as far as CPUs and queues cause it. A paced frame that came back keeps
 * its number. */
static inline __attribute__((always_inline)) __u64 draw_number(struct control *c, __u64 *next, int paced)
{
	if (paced && c->returned_count)
		return c->returned[--c->returned_count & (WRITTEN - 1)];
	return __sync_fetch_and_add(next, 1);
}

/* Take back the number of the last frame that was written and has not come back before. */
static inline __attribute__((always_inline)) void give_number_back(struct control *c, __u64 number)
{
	c->returned[c->returned_count++ & (WRITTEN - 1)] = number;
}

#endif
