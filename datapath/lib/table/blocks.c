// SPDX-License-Identifier: Apache-2.0
/*
 * The two blocks of a service: packets read one, the library writes the
 * other, and one store into the lookup table makes them change places.
 */
#include "table/blocks.h"

#include <errno.h>
#include <string.h>

#include "address.h"
#include "epoch.h"
#include "state.h"
#include "table/lookup.h"

struct service_entry *entry_of(struct oxp_node *node, uint32_t index)
{
	return &node->entries[index];
}

struct lookup_key entry_key(const struct service_entry *entry)
{
	return lookup_key(entry->vip, entry->port, entry->protocol);
}

int find_service(struct oxp_node *node, const struct lookup_key *key)
{
	int64_t place = lookup_find(node, key);

	return place < 0 ? (int)place
			 : (int)(*lookup_value(node, key->v6, place) / 2);
}

struct service_block *block_of(struct oxp_node *node, uint32_t number)
{
	return (void *)(node->blocks + number * node->block_size);
}

uint32_t live_number(struct oxp_node *node, uint32_t index)
{
	const struct service_entry *entry = entry_of(node, index);
	uint32_t number = UINT32_MAX;

	if (entry->place < lookup_places(node))
		number = *lookup_value(node, !is_v4(entry->vip), entry->place);
	/* else the state is damaged: oxp_faults_list() says so, and does
	 * not crash */
	return number / 2 == index ? number : 2 * index;
}

struct service_block *live_block(struct oxp_node *node, uint32_t index)
{
	return block_of(node, live_number(node, index));
}

struct service_block *scratch_block(struct oxp_node *node, uint32_t index)
{
	return block_of(node, live_number(node, index) ^ 1);
}

uint32_t places_of(const struct service_block *block)
{
	return block->members < OXP_MEMBERS_MAX ? block->members
						: OXP_MEMBERS_MAX;
}

uint8_t *ages_of(struct oxp_node *node, uint32_t index)
{
	return node->ages + index * node->ages_size;
}

uint16_t *before_of(const struct oxp_node *node, struct service_block *block)
{
	return block->slot + BEFORE_OFFSET(node->config->slots_max);
}

int free_scratch(struct oxp_node *node, uint32_t index, char *error)
{
	/* One wait frees the scratch blocks of all services that switched
	 * before it, so a batch of updates waits once. */
	if (entry_of(node, index)->switched <= node->config->waited)
		return 0;
	return grace_period(node, error);
}

void switch_tables(struct oxp_node *node, uint32_t index)
{
	struct service_entry *entry = entry_of(node, index);
	uint32_t *value = lookup_value(node, !is_v4(entry->vip), entry->place);
	struct service_block *next = block_of(node, *value ^ 1);

	next->generation = block_of(node, *value)->generation + 1;
	/* first, so that whoever dies in between leaves a needless wait */
	mark_switched(node, &entry->switched);
	__atomic_store_n(value, *value ^ 1, __ATOMIC_RELEASE);
}

void copy_description(struct service_block *to,
		      const struct service_block *from)
{
	const size_t skip = offsetof(struct service_block, slots);

	/* Packets may still have the index of a member that is gone: nothing
	 * must be left in its place. First, so that it holds after a death. */
	if (to->members > from->members)
		memset(&to->member[from->members], 0,
		       (to->members - from->members) * sizeof(to->member[0]));
	memcpy((char *)to + skip, (const char *)from + skip,
	       offsetof(struct service_block, member) - skip +
		       from->members * sizeof(from->member[0]));
}
