// SPDX-License-Identifier: Apache-2.0
/*
 * Choosing the size of a table. A member gets its share of slots to within one,
 * so with 100 slots per member the error is below 1 % of the share. With
 * different weights it is below 1 % of the lightest member's share if that has
 * at least a quarter of the average weight; for lighter ones it is larger: a
 * single weight must not make a table large.
 *
 * Sizes are few and far apart so that they rarely change: each is the greatest
 * prime below a power of four. All configured members count, whatever their
 * health, so that every node chooses the same size.
 */
#include "table/slot_count.h"

#include "state.h"
#include "table/maglev.h"

#define SLOTS_OF_MEMBER 100
#define LIGHTER_MAX 4 /* average weight over the least one considered */

static const uint32_t sizes[] = {1021, 4093, 16381, 65521, 262139, 1048573};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Returns how many members of the lightest weight have the total weight. */
static uint64_t equal_members(const struct block_member *members,
			      uint32_t count)
{
	uint64_t sum = 0, lightest = UINT64_MAX, with_weight = 0, equal;

	for (uint32_t i = 0; i < count; i++) {
		if (!members[i].weight)
			continue;
		sum += members[i].weight;
		with_weight++;
		if (members[i].weight < lightest)
			lightest = members[i].weight;
	}
	if (!with_weight)
		return 1;
	equal = (sum + lightest - 1) / lightest;
	return equal < LIGHTER_MAX * with_weight ? equal
						 : LIGHTER_MAX * with_weight;
}

uint32_t slot_count(const struct block_member *members, uint32_t count,
		    uint32_t slots_max)
{
	uint64_t wanted = SLOTS_OF_MEMBER * equal_members(members, count);
	uint32_t slots = slots_max;

	for (uint32_t i = 0; i < SIZES && sizes[i] <= slots_max; i++) {
		slots = sizes[i];
		if (slots >= wanted)
			break;
	}
	while (!is_prime(slots))
		slots--;
	return slots;
}
