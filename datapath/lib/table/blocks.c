// SPDX-License-Identifier: Apache-2.0
/*
 * The two blocks of a service: packets read one, the library writes the other,
 * and one store to the lookup table exchanges them.
 */
#include "table/blocks.h"

#include <errno.h>
#include <string.h>

#include "address.h"
#include "epoch.h"
#include "state.h"
#include "table/heads.h"
#include "table/lookup.h"
#include "table/segments.h"

struct service_entry *entry_of(struct oxp_node *node, uint32_t index)
{
	return &node->entries[index];
}

uint32_t next_service(struct oxp_node *node, uint32_t index)
{
	while (index < node->config->services_max &&
	       entry_of(node, index)->state != ENTRY_USED)
		index++;
	return index;
}

struct lookup_key entry_key(const struct service_entry *entry)
{
	return lookup_key(entry->vip, entry->port, entry->protocol);
}

struct service_block *block_at(struct oxp_node *node, uint32_t line)
{
	struct service_block *block = at_line(node, line);

	/* damaged state: oxp_faults_list() must report it, not crash */
	return block ? block : (struct service_block *)node->nothing;
}

int find_service(struct oxp_node *node, const struct lookup_key *key)
{
	int64_t place = lookup_find(node, key);

	uint32_t index;

	if (place < 0)
		return place;
	/* in a damaged state this may be another service's block */
	index = block_at(node, *lookup_value(node, key->v6, place))->service;
	return index < node->config->services_max ? (int)index : -ENOENT;
}

uint32_t live_line(struct oxp_node *node, uint32_t index)
{
	const struct service_entry *entry = entry_of(node, index);
	uint32_t line = 0;

	if (entry->place < lookup_places(node))
		line = *lookup_value(node, !is_v4(entry->vip), entry->place);
	return line && line == entry->block[1] ? line : entry->block[0];
}

/* Returns an index into entry->block[]. */
static int scratch_of(struct oxp_node *node, uint32_t index)
{
	return live_line(node, index) == entry_of(node, index)->block[0];
}

struct service_block *live_block(struct oxp_node *node, uint32_t index)
{
	return block_at(node, live_line(node, index));
}

struct service_block *scratch_block(struct oxp_node *node, uint32_t index)
{
	const struct service_entry *entry = entry_of(node, index);

	return block_at(node, entry->block[scratch_of(node, index)]);
}

uint32_t places_of(const struct service_block *block)
{
	return block->members < OXP_MEMBERS_MAX ? block->members
						: OXP_MEMBERS_MAX;
}

uint8_t *ages_of(struct oxp_node *node, const struct service_block *block)
{
	return at_line(node, block->ages);
}

int resize_lines(struct oxp_node *node, __u32 *line, __u32 *lines,
		 uint32_t wanted, char *error)
{
	int64_t first;

	if (*line && *lines >= wanted && *lines <= 2 * wanted + 8)
		return 0;
	begin_change(node, false);
	free_lines(node, *line, *lines);
	*line = 0;
	first = allocate_lines(node, wanted, error);
	if (first < 0)
		return first;
	*lines = wanted;
	__atomic_store_n(line, first, __ATOMIC_RELEASE);
	return 0;
}

/* If the number of slots changes, use the entry's other ages, which the live
 * block does not refer to. */
static int resize_ages(struct oxp_node *node, uint32_t index,
		       const struct service_block *old,
		       struct service_block *next, char *error)
{
	struct service_entry *entry = entry_of(node, index);
	uint32_t lines;
	int which, status;

	if (old && old->slots == next->slots) {
		next->ages = old->ages;
		return 0;
	}
	which = old && old->ages == entry->ages[0];
	lines = entry->ages_lines[which];
	status = resize_lines(node, &entry->ages[which], &lines,
			      LINES_OF(next->slots), error);
	if (status)
		return status;
	entry->ages_lines[which] = lines;
	next->ages = entry->ages[which];
	memset(ages_of(node, next), 0, next->slots);
	return 0;
}

uint32_t lines_of_block(uint32_t slots, uint32_t places, uint32_t before_slots,
			bool second_chance)
{
	uint32_t width = places > NARROW_PLACES ? 2 : 1;
	uint32_t bitmap = LINES_OF((slots + 7) / 8);

	return LINES_BEFORE_SLOTS(places) + LINES_OF(slots * width) + bitmap +
	       LINES_OF(before_slots * width) + (second_chance ? bitmap : 0);
}

int write_scratch(struct oxp_node *node, uint32_t index,
		  const struct service_block *draft,
		  const struct service_block *old, uint32_t before_slots,
		  struct service_block **out, char *error)
{
	const size_t skip = offsetof(struct service_block, slots);
	struct service_entry *entry = entry_of(node, index);
	int which = old ? scratch_of(node, index) : 0, status;
	struct service_block *next;

	status = resize_lines(
		node, &entry->block[which], &entry->block_lines[which],
		lines_of_block(draft->slots, draft->members, before_slots,
			       draft->flags & OXP_SERVICE_SECOND_CHANCE),
		error);
	if (status)
		return status;
	next = block_at(node, entry->block[which]);
	memcpy((char *)next + skip, (const char *)draft + skip,
	       sizeof(*draft) - skip +
		       draft->members * sizeof(draft->member[0]));
	next->service = index;
	next->slot_width = draft->members > NARROW_PLACES ? 2 : 1;
	next->slot_line = LINES_BEFORE_SLOTS(draft->members);
	write_heads(next);
	next->before_slots = before_slots;
	next->watch = old ? old->watch : 0;
	if (old)
		next->flags |= old->flags & BLOCK_USED;
	*out = next;
	return resize_ages(node, index, old, next, error);
}

bool has_same_description(const struct service_block *draft,
			  const struct service_block *old)
{
	const size_t skip = offsetof(struct service_block, slots);
	struct service_block same;

	if (!old || old->members != draft->members)
		return false;
	/* fields that are derived, or not set by the caller */
	same = *draft;
	same.service = old->service;
	same.slot_line = old->slot_line;
	same.slot_width = old->slot_width;
	same.before_slots = old->before_slots;
	same.ages = old->ages;
	same.open = old->open;
	same.learning = old->learning;
	same.watch = old->watch;
	same.flags |= old->flags & (BLOCK_LEARNING | BLOCK_OPEN | BLOCK_USED |
				    BLOCK_CHANGED);
	return !memcmp((const char *)old + skip, (const char *)&same + skip,
		       sizeof(same) - skip) &&
	       !memcmp(old->member, draft->member,
		       old->members * sizeof(old->member[0]));
}

void forget_blocks(struct oxp_node *node, uint32_t index)
{
	struct service_entry *entry = entry_of(node, index);

	for (int i = 0; i < 2; i++) {
		free_lines(node, entry->block[i], entry->block_lines[i]);
		free_lines(node, entry->ages[i], entry->ages_lines[i]);
		free_lines(node, entry->networks[i], entry->networks_lines[i]);
	}
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
	uint32_t next = entry->block[scratch_of(node, index)];

	block_at(node, next)->generation =
		live_block(node, index)->generation + 1;
	/* first: dying in between then costs only a needless wait */
	mark_switched(node, &entry->switched);
	__atomic_store_n(value, next, __ATOMIC_RELEASE);
}
