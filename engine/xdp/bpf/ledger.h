/* SPDX-License-Identifier: Apache-2.0 */
/* Ledger of received frames and their order (RFC 4737). `shared`: several queues. */
#ifndef DUTLAB_LEDGER_H
#define DUTLAB_LEDGER_H

#include "packet.h"

struct search {
	struct ledger *l;
	__u64 sequence, found; /* arrival plus one of the first overtaker */
};

static long look_at_jump(__u32 i, struct search *s)
{
	struct ledger *l = s->l;
	struct jump *j = &l->jumps[(l->jump_head - 1 - i) & (JUMPS - 1)];

	if (i >= l->jump_head)
		return 1;
	if (j->from <= s->sequence && s->sequence < j->to) {
		s->found = j->arrival + 1;
		return 1;
	}
	return 0;
}

/* RFC 4737 section 4.2.1: the number of arrivals since the first frame with a higher number. That frame made the gap
 * to which this one belongs. */
static __noinline int note_extent(struct tally *t, struct ledger *l, __u64 sequence, __u64 arrival)
{
	struct search s = {.l = l, .sequence = sequence};
	__u64 extent;

	if (!t || !l)
		return 0;
	bpf_loop(JUMPS, look_at_jump, &s, 0);
	if (!s.found) {
		t->extent_unknown++;
		return 0;
	}
	/* Two CPUs may have taken the numbers of their arrivals in another order than the frames'. */
	extent = arrival >= s.found ? arrival + 1 - s.found : 1;
	t->extent_sum += extent;
	if (extent > t->extent_max)
		t->extent_max = extent;
	return 0;
}

/* RFC 4737 section 5.3: return whether the three arrivals before this one, the `unique`th, all have a higher number. */
static __noinline int note_by_three(struct tally *t, __u64 sequence)
{
	__u64 after = 0;

	if (!t)
		return 0;
	/* This frame takes the slot after the three. */
	for (__u32 i = 0; i < RECENT; i++)
		after += t->recent[i] > sequence && i != ((t->unique - 1) & (RECENT - 1));
	t->by_three += after == RECENT - 1;
	return 0;
}

enum verdict { UNIQUE, DUPLICATE, TOO_OLD };

static __always_inline enum verdict look_up(__u64 word, __u64 round, __u64 bit, __u64 *then)
{
	__u64 its_round = word >> 32;

	if (its_round == round) {
		if (word & bit)
			return DUPLICATE;
		*then = word | bit;
		return UNIQUE;
	}
	if (its_round > round)
		return TOO_OLD;
	*then = round << 32 | bit;
	return UNIQUE;
}

/* Mark a sequence number. No word is cleared in advance: each word contains the round that it belongs to. */
static __always_inline enum verdict mark(const int shared, struct ledger *l, __u64 sequence)
{
	__u64 *word = &l->window[(sequence >> WINDOW_WORD_LOG2) & (WINDOW_WORDS - 1)];
	__u64 round = sequence >> WINDOW_LOG2, bit = 1ULL << (sequence & 31), then = 0, was;
	enum verdict v;

	if (unlikely(l->next > sequence + REMEMBERED))
		return TOO_OLD;
	if (!shared) {
		v = look_up(*word, round, bit, &then);
		if (v == UNIQUE)
			*word = then;
		return v;
	}
	for (int i = 0; i < 16; i++) {
		was = *word;
		v = look_up(was, round, bit, &then);
		if (v != UNIQUE || __sync_val_compare_and_swap(word, was, then) == was)
			return v;
	}
	return TOO_OLD;
}

/* Advance NextExp; return whether the frame came after a higher one. */
static __always_inline int is_reordered(const int shared, struct ledger *l, __u64 sequence, __u64 arrival)
{
	__u64 next = l->next;

	if (!shared) {
		if (sequence < next)
			return 1;
		l->next = sequence + 1;
	} else {
		for (int i = 0; i < 16; i++) {
			__u64 was;

			if (sequence < next)
				return 1;
			was = __sync_val_compare_and_swap(&l->next, next, sequence + 1);
			if (was == next)
				break;
			next = was;
		}
	}
	if (unlikely(sequence > next)) {
		__u64 at = shared ? __sync_fetch_and_add(&l->jump_head, 1) : l->jump_head++;
		struct jump *j = &l->jumps[at & (JUMPS - 1)];

		j->from = next;
		j->to = sequence;
		j->arrival = arrival;
	}
	return 0;
}

#endif
