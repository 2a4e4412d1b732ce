// SPDX-License-Identifier: Apache-2.0
/*
 * The two blocks of a service: packets read one, the library writes the
 * other, and one store makes them change places.
 */
#include <string.h>

#include "internal.h"

struct service_entry *entry_of(struct oxp_node *node, uint32_t index)
{
	return &node->entries[index];
}

static struct service_block *block_of(struct oxp_node *node, uint32_t index,
				      uint64_t parity)
{
	size_t number = 2 * (size_t)index + (parity & 1);

	return (void *)(node->blocks + number * node->block_size);
}

struct service_block *live_block(struct oxp_node *node, uint32_t index)
{
	return block_of(node, index, entry_of(node, index)->active);
}

struct service_block *scratch_block(struct oxp_node *node, uint32_t index)
{
	return block_of(node, index, entry_of(node, index)->active + 1);
}

bool takes_traffic(const struct block_member *member)
{
	const uint8_t up = MEMBER_ADMIN_UP | MEMBER_HEALTHY;

	return (member->flags & up) == up && member->weight;
}

int free_scratch(struct oxp_node *node, uint32_t index, char *error)
{
	/* One wait frees the scratch blocks of all services that switched
	 * before it, so a batch of updates waits once. */
	if (entry_of(node, index)->switched != node->config->epoch)
		return 0;
	return grace_period(node, error);
}

void compute_slots(struct service_block *block)
{
	struct taker takers[OXP_MEMBERS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < block->members; i++) {
		const struct block_member *member = &block->member[i];

		if (takes_traffic(member))
			takers[count++] = (struct taker){
				.name = (const uint8_t *)member->address,
				.weight = member->weight,
				.value = i,
			};
	}
	block->enabled = count;
	/* cannot fail: a block has few members */
	maglev_fill(takers, count, block->slots, block->slot);
}

void switch_tables(struct oxp_node *node, uint32_t index)
{
	struct service_block *block = scratch_block(node, index);
	struct service_entry *entry = entry_of(node, index);
	uint64_t generation = entry->active + 1;

	block->generation = generation;
	/* first, so that whoever dies in between leaves a needless wait */
	__atomic_store_n(&entry->switched, node->config->epoch,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&entry->active, generation, __ATOMIC_RELEASE);
}
