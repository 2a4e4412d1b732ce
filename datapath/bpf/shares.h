/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sets in which each owner has a share: share_set.h. */
#ifndef OXP_SHARES_H
#define OXP_SHARES_H

#include "age_since.h"
#include "branch_free.h"
#include "map_types.h"
#include "share_set.h"

static __always_inline __u32 share_time(void)
{
	return bpf_ktime_get_coarse_ns() >> SHARE_UNIT_SHIFT;
}

static __always_inline __u64 share_state(__u32 owner, __u32 what)
{
	return (__u64)share_time() << SHARE_TIME_SHIFT |
	       (__u64)(owner & 0xffff) << SHARE_OWNER_SHIFT |
	       (what & SHARE_WHAT);
}

static __always_inline __u64 share_age(__u64 state, __u32 now)
{
	return age_since(state >> SHARE_TIME_SHIFT, now, 0xffffffff,
			 AGE_AHEAD_MS);
}

/* How many of a set's states have the same owner. */
static __always_inline __u64 count_of_owner(const __u64 *states, __u64 state)
{
	__u64 count = 0;

#pragma clang loop unroll(disable)
	for (__u32 way = 0; way < SHARE_WAYS; way++)
		count +=
			is_zero((READ_ONCE(states[way]) ^ state) & SHARE_OWNER);
	return count;
}

/*
 * Selects the place for a new element: a free one; else the oldest of the owner
 * with most, if that has at least two more, so that the new owner does not end
 * up with more; else the oldest of the same owner, or of all if it has none.
 * Elements older than `age_max` count as free. `tie` selects among equals, so
 * that they are taken in turn.
 */
static __always_inline __u32 place_in_shares(const __u64 *states, __u64 state,
					     __u32 tie, __u64 age_max)
{
	__u64 best = 0, own = count_of_owner(states, state);
	__u32 now = state >> SHARE_TIME_SHIFT, best_way = 0;

#pragma clang loop unroll(disable)
	for (__u32 way = 0; way < SHARE_WAYS; way++) {
		__u64 was = READ_ONCE(states[way]);
		__u64 age = share_age(was, now);
		__u64 free = is_zero(was) | is_less(age_max, age);
		__u64 count = count_of_owner(states, was);
		__u64 same = is_zero((was ^ state) & SHARE_OWNER);
		__u64 score;

		score = chosen(is_less(own + 1, count), count, same);
		score = chosen(free, SHARE_WAYS + 1, score);
		score = score << 40 | (age & 0xffffffff) << 3 |
			((way ^ tie) & (SHARE_WAYS - 1));
		if (score >= best) {
			best = score;
			best_way = way;
		}
	}
	return best_way;
}

#endif
