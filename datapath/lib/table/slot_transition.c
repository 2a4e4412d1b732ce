// SPDX-License-Identifier: Apache-2.0
/*
 * Transition from one table to the next without taking flows from members that
 * can keep them.
 *
 * Where flows of a slot are: in a closed slot, all at its owner. In an open
 * slot, remembered ones as in `flows`; the others, unknown to packets, at one
 * member U.
 *   TCP, SCTP: U is `before`: flows that began since the slot opened are
 *      remembered.
 *   UDP, OXP_SERVICE_SOURCE (not every flow shows its start): while the service
 *      is learning U is `before`, and flows seen there get remembered. After
 *      that unknown flows go to the slot's owner, which then is U.
 *
 * With O the owner until now, N the new one, and "x" for a member that is gone,
 * down or nobody, the next state of the slot is
 *
 *   until now  O     U       next
 *   closed     = N   = O     closed
 *   closed     keeps = O     open, before O
 *   closed     x     = O     closed: its flows are lost
 *   open       any   keeps   open, before U
 *   open       keeps x       open, before O: flows that are alive but not
 *                            remembered here may have begun at other nodes
 *   open       x     x       open, before N: remembered flows of third members
 *
 * An open slot closes by its age (tick.c), and here when no member stays.
 *
 * With a second chance `before` names the other member that may have flows, so
 * it outlives the slot's closing. The table above is completed by A, the
 * `before` of a slot that is closed and changed:
 *
 *   until now  O     U, A    next
 *   closed     = N   A keeps closed, before A
 *   closed     x     A keeps closed, before A
 *   open       keeps = N     closed, before O: flows that began at O are handed
 *                            on, whoever remembers them
 */
#include "table/slot_transition.h"

#include <netinet/in.h>
#include <string.h>

#include "state.h"
#include "table/blocks.h"
#include "table/heads.h"
#include "table/members.h"
#include "table/slots.h"

struct slot_state slot_transition(struct slot_state old, uint16_t owner,
				  const bool *stays, bool unknown_at_before)
{
	uint16_t now = old.slot & SLOT_MEMBER, unknown = now;
	struct slot_state next = {owner, owner};

	if (old.slot & SLOT_OPEN) {
		if (unknown_at_before)
			unknown = old.before;
		next.slot |= SLOT_OPEN;
		if (stays[SLOT_STAYS(unknown)])
			next.before = unknown;
		else if (stays[SLOT_STAYS(now)])
			next.before = now;
	} else if (owner != now && stays[SLOT_STAYS(now)]) {
		next.slot |= SLOT_OPEN;
		next.before = now;
	}
	return next;
}

/* Whether flows have the same positions in both tables. */
static bool is_comparable(const struct service_block *a,
			  const struct service_block *b)
{
	if ((a->flags ^ b->flags) & OXP_SERVICE_SOURCE)
		return false;
	return !(a->flags & OXP_SERVICE_SOURCE) ||
	       (a->source_length_v4 == b->source_length_v4 &&
		a->source_length_v6 == b->source_length_v6);
}

/* Returns whether any member stays. */
static bool who_stays(const struct service_block *old,
		      const struct service_block *next, bool *stays)
{
	bool anybody = false;

	memset(stays, 0, STAYS * sizeof(*stays));
	for (uint32_t i = 0; i < old->members && i < next->members; i++) {
		stays[i] = old->member[i].flags & MEMBER_KEEPS_FLOWS &&
			   next->member[i].flags & MEMBER_KEEPS_FLOWS &&
			   takes_over(&old->member[i], &next->member[i]);
		anybody |= stays[i];
	}
	return anybody;
}

static void close_all(struct service_block *next, const uint16_t *table,
		      const uint16_t *owner_of)
{
	char *slots = slots_of(next);

	for (uint32_t i = 0; i < next->slots; i++)
		write_element(next, slots, i, owner_of[table[i]]);
	next->open = 0;
	next->learning = 0;
	next->flags &= ~(BLOCK_LEARNING | BLOCK_OPEN | BLOCK_CHANGED);
}

static void learn(struct oxp_node *node, uint32_t index,
		  struct service_block *next, const struct service_block *old,
		  uint32_t open, bool moved)
{
	bool shows_opening = entry_of(node, index)->protocol != IPPROTO_UDP &&
			     !(next->flags & OXP_SERVICE_SOURCE);

	next->flags &= ~BLOCK_LEARNING;
	next->learning = 0;
	if (shows_opening || !open)
		return;
	if (moved)
		next->learning = next->idle_timeout_s;
	else if (old->flags & BLOCK_LEARNING)
		next->learning = old->learning;
	if (next->learning)
		next->flags |= BLOCK_LEARNING;
}

#define CHUNK 512 /* slots */

/* Write the owners of up to CHUNK slots, and list in changed[] the slots that
 * had another owner. Changes are unpredictable, so there is no branch. */
#define WRITE_OWNERS(name, element)                                            \
	static uint32_t name(element *next, const element *old,                \
			     const uint16_t *table, const uint16_t *owner_of,  \
			     uint32_t count, uint16_t *changed)                \
	{                                                                      \
		uint32_t found = 0;                                            \
                                                                               \
		for (uint32_t i = 0; i < count; i++) {                         \
			element owner = owner_of[table[i]];                    \
                                                                               \
			next[i] = owner;                                       \
			changed[found] = i;                                    \
			found += old[i] != owner;                              \
		}                                                              \
		return found;                                                  \
	}
WRITE_OWNERS(write_narrow, uint8_t)
WRITE_OWNERS(write_wide, uint16_t)

struct change {
	const bool *stays;
	struct service_block *next;
	const struct service_block *old;
	char *before;
	uint8_t *ages;
	bool at_before;
	bool moved; /* unknown flows may matter that did not before */
	bool second_chance;
	bool changed; /* at least one slot */
	uint32_t open;
};

static uint32_t write_owners(struct change *change, uint32_t first,
			     const uint16_t *table, const uint16_t *owner_of,
			     uint32_t count, uint16_t *changed)
{
	char *next = slots_of(change->next), *old = slots_of(change->old);
	uint32_t found = 0;

	if (change->next->slot_width == 1)
		found = write_narrow((uint8_t *)next + first,
				     (uint8_t *)old + first, table + first,
				     owner_of, count, changed);
	else
		found = write_wide((uint16_t *)next + first,
				   (uint16_t *)old + first, table + first,
				   owner_of, count, changed);
	if (!(change->old->flags & (BLOCK_OPEN | BLOCK_CHANGED)))
		return found;
	/* slots that were open or changed count as well */
	found = 0;
	for (uint32_t i = 0; i < count; i++) {
		changed[found] = i;
		found += slot_is_open(change->old, first + i) ||
			 slot_is_changed(change->old, first + i) ||
			 (owner_at(change->old, first + i) !=
			  owner_at(change->next, first + i));
	}
	return found;
}

/* Returns the slot of the block's `before` amid one of the block's own
 * slots. */
static uint32_t before_amid(const struct service_block *block, uint32_t slot)
{
	uint64_t middle = (first_position(slot, block->slots) +
			   first_position(slot + 1, block->slots)) /
			  2;

	return slot_at(middle, block->before_slots);
}

static bool is_alternative(const struct change *change, uint16_t owner,
			   uint16_t other)
{
	const struct member_head *head = heads_of(change->next);

	return owner != SLOT_NOBODY && owner != other &&
	       change->stays[SLOT_STAYS(other)] &&
	       are_alternatives(&head[owner], &head[other]);
}

/* Implement the second table above. */
static void keep_alternative(struct change *change, uint32_t i,
			     struct slot_state old, struct slot_state *next)
{
	uint16_t now = old.slot & SLOT_MEMBER;
	uint16_t owner = next->slot & SLOT_MEMBER, other = SLOT_NOBODY;

	if (next->slot & SLOT_OPEN) {
		if (next->before == owner && is_alternative(change, owner, now))
			*next = (struct slot_state){owner, now};
	} else if (slot_is_changed(change->old, i)) {
		other = before_at(change->old, before_amid(change->old, i));
		if (is_alternative(change, owner, other))
			next->before = other;
	}
	if (!(next->slot & SLOT_OPEN) && next->before == owner)
		return;
	mark_slot_changed(change->next, i);
	write_element(change->next, change->before, i, next->before);
	change->changed = true;
}

static void change_slot(struct change *change, uint32_t i)
{
	uint16_t owner = owner_at(change->next, i);
	struct slot_state old = {owner_at(change->old, i), 0}, next;

	if (slot_is_open(change->old, i)) {
		old.slot |= SLOT_OPEN;
		/* only for open slots: this memory is rarely in a cache */
		old.before = before_at(change->old, i);
	}
	next = slot_transition(old, owner, change->stays, change->at_before);
	if (change->second_chance)
		keep_alternative(change, i, old, &next);
	if (!(next.slot & SLOT_OPEN))
		return;
	mark_slot_open(change->next, i);
	write_element(change->next, change->before, i, next.before);
	change->open++;
	if (next.slot == old.slot && next.before == old.before)
		return;
	__atomic_store_n(&change->ages[i], 0, __ATOMIC_RELAXED);
	change->moved |= (old.slot & SLOT_MEMBER) != owner;
}

static void change_slots(struct change *change, const uint16_t *table,
			 const uint16_t *owner_of)
{
	uint16_t changed[CHUNK];

	for (uint32_t i = 0; i < change->next->slots; i += CHUNK) {
		uint32_t count = change->next->slots - i, found;

		if (count > CHUNK)
			count = CHUNK;
		found = write_owners(change, i, table, owner_of, count,
				     changed);
		for (uint32_t j = 0; j < found; j++)
			change_slot(change, i + changed[j]);
	}
}

/* Whether the next table's slots match those of the old one and of its
 * `before`. */
static bool has_equal_slots(const struct service_block *old,
			    const struct service_block *next)
{
	return old->slots == next->slots &&
	       old->slot_width == next->slot_width &&
	       (!(old->flags & BLOCK_OPEN) || old->before_slots == old->slots);
}

static bool unknown_at_before(struct oxp_node *node, uint32_t index,
			      const struct service_block *old)
{
	return (entry_of(node, index)->protocol != IPPROTO_UDP &&
		!(old->flags & OXP_SERVICE_SOURCE)) ||
	       old->flags & BLOCK_LEARNING;
}

uint32_t next_before_slots(struct oxp_node *node, uint32_t index,
			   const struct service_block *next,
			   const struct service_block *old)
{
	if (!old || !is_comparable(old, next) || has_equal_slots(old, next))
		return next->slots;
	if (old->flags & BLOCK_OPEN && unknown_at_before(node, index, old))
		return old->before_slots;
	return old->slots;
}

/* Returns the slot of a block at the middle of a slot of the next `before`. */
static uint32_t slot_amid(const struct service_block *next, uint32_t before,
			  uint32_t slots)
{
	uint64_t middle = (first_position(before, next->before_slots) +
			   first_position(before + 1, next->before_slots)) /
			  2;

	return slot_at(middle, slots);
}

/* Returns who has the flows not remembered, at a slot of the next `before`. */
static uint16_t unknown_at(const struct change *change, uint32_t slot)
{
	const struct service_block *old = change->old, *next = change->next;
	uint32_t amid = slot_amid(next, slot, old->slots);
	uint16_t now = owner_at(old, amid), unknown = now;

	if (next->before_slots != old->slots)
		unknown = before_at(old, slot);
	else if (slot_is_open(old, amid) && change->at_before)
		unknown = before_at(old, slot);
	if (change->stays[SLOT_STAYS(unknown)])
		return unknown;
	if (slot_is_open(old, amid) && change->stays[SLOT_STAYS(now)])
		return now;
	return owner_at(next, slot_amid(next, slot, next->slots));
}

/* Whether a flow of the slot may be at another member than the owner. */
static bool is_shared(const struct change *change, uint32_t slot,
		      uint16_t owner)
{
	const struct service_block *old = change->old, *next = change->next;
	uint32_t first = first_position(slot, next->slots);
	uint32_t last = first_position(slot + 1, next->slots) - 1;
	uint32_t end = slot_at(last, next->before_slots);

	for (uint32_t i = slot_at(first, next->before_slots); i <= end; i++) {
		uint16_t unknown = before_at(next, i);

		if (unknown != SLOT_NOBODY && unknown != owner)
			return true;
	}
	if (!(old->flags & BLOCK_OPEN))
		return false;
	end = slot_at(last, old->slots);
	for (uint32_t i = slot_at(first, old->slots); i <= end; i++)
		if (slot_is_open(old, i))
			return true;
	return false;
}

/*
 * The number of slots changes, or has changed while slots are still open:
 * `before` keeps its number of slots, or takes the old table's. It is valid for
 * flows of closed slots as well, since slots then close together.
 */
static void change_size(struct change *change, const uint16_t *table,
			const uint16_t *owner_of)
{
	struct service_block *next = change->next;
	const struct service_block *old = change->old;
	char *slots = slots_of(next);

	for (uint32_t i = 0; i < next->slots; i++)
		write_element(next, slots, i, owner_of[table[i]]);
	for (uint32_t i = 0; i < next->before_slots; i++)
		write_element(next, change->before, i, unknown_at(change, i));
	for (uint32_t i = 0; i < next->slots; i++) {
		uint16_t owner = owner_at(next, i);

		if (!is_shared(change, i, owner))
			continue;
		mark_slot_open(next, i);
		if (change->second_chance)
			mark_slot_changed(next, i);
		change->changed = change->second_chance;
		change->open++;
		if (old->slots != next->slots || !slot_is_open(old, i) ||
		    owner_at(old, i) != owner)
			__atomic_store_n(&change->ages[i], 0, __ATOMIC_RELAXED);
	}
	change->moved = true;
}

void transition(struct oxp_node *node, uint32_t index,
		struct service_block *next, const struct service_block *old,
		const uint16_t *table, const uint16_t *owner_of)
{
	bool stays[STAYS];
	struct change change = {
		.stays = stays,
		.next = next,
		.old = old,
		.before = before_of(next),
		.ages = ages_of(node, next),
	};

	/* NAT remembers every flow */
	if (next->flags & OXP_SERVICE_NAT || !old ||
	    !is_comparable(old, next) || !who_stays(old, next, stays)) {
		close_all(next, table, owner_of);
		return;
	}
	change.second_chance = next->flags & OXP_SERVICE_SECOND_CHANCE;
	if (change.second_chance)
		memset(changed_of(next), 0, (next->slots + 7) / 8);
	change.at_before = unknown_at_before(node, index, old);
	memset(bitmap_of(next), 0, (next->slots + 7) / 8);
	if (has_equal_slots(old, next))
		change_slots(&change, table, owner_of);
	else
		change_size(&change, table, owner_of);
	next->open = change.open < 65535 ? change.open : 65535;
	next->flags &= ~(BLOCK_OPEN | BLOCK_CHANGED);
	if (change.open)
		next->flags |= BLOCK_OPEN;
	if (change.changed)
		next->flags |= BLOCK_CHANGED;
	learn(node, index, next, old, change.open, change.moved);
}
