/* SPDX-License-Identifier: Apache-2.0 */
/* Time in tables of sets with SHARE_WAYS ways each, whose elements begin with
 * all tags and then all states. */
#ifndef OXP_OLDER_SETS_H
#define OXP_OLDER_SETS_H

#include <bpf/bpf.h>

#include "share_set.h"

/* Makes all sets this much older, in units of 1.05 ms. */
static inline void make_older(int map, uint32_t sets, uint64_t units)
{
	uint64_t set[3 * SHARE_WAYS], *state = set + SHARE_WAYS;

	for (uint32_t i = 0; i < sets; i++) {
		assert_int_equal(bpf_map_lookup_elem(map, &i, set), 0);
		for (int way = 0; way < SHARE_WAYS; way++)
			if (state[way])
				state[way] -= units << SHARE_TIME_SHIFT;
		assert_int_equal(bpf_map_update_elem(map, &i, set, BPF_ANY), 0);
	}
}

#endif
