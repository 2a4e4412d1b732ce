/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What packets leave for later ones in struct shared_set. Another CPU may reuse
 * a place after its value was read: check a value against what it refers to. */
#ifndef OXP_SHARED_SETS_H
#define OXP_SHARED_SETS_H

#include "maps.h"
#include "shares.h"

/* Global functions are verified once and not at each call. */

/* SHARE_WAYS: not found. */
static __always_inline __u32 way_of_tag(const struct shared_set *set, __u64 tag)
{
	__u32 way = 0;

	while (way < SHARE_WAYS && READ_ONCE(set->tag[way]) != tag)
		way++;
	return way;
}

__noinline __u32 way_in_set(const struct shared_set *set, __u64 tag)
{
	return set ? way_of_tag(set, tag) : SHARE_WAYS;
}

__noinline int leave_in_set(struct shared_set *set, __u64 tag, __u64 state,
			    __u64 value, __u32 age_max)
{
	__u64 *word, was;
	__u32 way;

	if (!set)
		return 0;
	way = way_of_tag(set, tag);
	if (way == SHARE_WAYS)
		way = place_in_shares(set->state, state, tag >> 32, age_max);
	way &= SHARE_WAYS - 1;
	word = &set->state[way];
	was = READ_ONCE(*word);
	/* another CPU is writing there and came first */
	if ((was & SHARE_WHAT) == SHARE_BUSY ||
	    __sync_val_compare_and_swap(word, was, state | SHARE_BUSY) != was)
		return 0;
	__sync_lock_test_and_set(&set->tag[way], tag);
	__sync_lock_test_and_set(&set->value[way], value);
	__sync_lock_test_and_set(word, state);
	return 0;
}

#endif
