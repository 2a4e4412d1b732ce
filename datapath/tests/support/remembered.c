// SPDX-License-Identifier: Apache-2.0
#include "remembered.h"

#include <sys/mman.h>

#include "state.h"

uint32_t refresh_later(struct oxp_node *node, int units)
{
	uint32_t sets = node->config->flows_max / FLOW_SET_WAYS, count = 0;
	size_t length = sets * sizeof(struct flow_set);
	struct flow_set *set = mmap(NULL, length, PROT_READ | PROT_WRITE,
				    MAP_SHARED, node->map[MAP_FLOWS], 0);

	assert_true(set != MAP_FAILED);
	for (uint32_t i = 0; i < sets * FLOW_SET_WAYS; i++) {
		__u64 *entry = &set[i / FLOW_SET_WAYS].entry[i % FLOW_SET_WAYS];
		__u64 time = *entry >> FLOW_TIME_SHIFT;

		if (!*entry)
			continue;
		*entry ^= ((time ^ (time + units)) & FLOW_TIME_MASK)
			  << FLOW_TIME_SHIFT;
		count++;
	}
	munmap(set, length);
	return count;
}

uint64_t not_remembered(struct oxp_node *node)
{
	struct oxp_outcome_counters all[OXP_OUTCOMES];

	assert_int_equal(oxp_outcomes_list(node, all, OXP_OUTCOMES, error),
			 OXP_OUTCOMES);
	return all[OXP_FLOW_TABLE_FULL].packets;
}
