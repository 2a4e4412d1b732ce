// SPDX-License-Identifier: Apache-2.0
/*
 * From one table to the next without taking flows from members that can keep
 * them.
 *
 * Where flows of a slot are. A closed slot: all at its owner. An open slot:
 * those in `flows` where they are remembered; the others, which packets know
 * nothing of, at one member U.
 *   TCP, SCTP: U is `before`: flows that began since the slot opened are
 *      remembered.
 *   UDP, OXP_SERVICE_SOURCE (nothing, or not everything, opens a flow): while
 *      the service is learning U is `before`, and who is seen there gets
 *      remembered. Afterwards the unknown go to the slot's owner: U is that.
 *
 * With O the owner until now, N the new one, and "x" for a member that is
 * gone, down or nobody, the next state of the slot is
 *
 *   until now  O     U       next
 *   closed     = N   = O     closed
 *   closed     keeps = O     open, before O
 *   closed     x     = O     closed: its flows are lost
 *   open       any   keeps   open, before U
 *   open       keeps x       open, before O: what this node does not remember
 *                            and is still alive, another node may have begun
 *   open       x     x       open, before N: remembered flows of third members
 *
 * An open slot closes by its age (tick.c), and here when no member stays.
 */
#include "table/slot_transition.h"

#include <netinet/in.h>
#include <string.h>

#include "state.h"
#include "table/blocks.h"

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

/* Flows are in the same slots of both tables. */
static bool is_comparable(const struct service_block *a,
			  const struct service_block *b)
{
	if (a->slots != b->slots || (a->flags ^ b->flags) & OXP_SERVICE_SOURCE)
		return false;
	return !(a->flags & OXP_SERVICE_SOURCE) ||
	       (a->source_length_v4 == b->source_length_v4 &&
		a->source_length_v6 == b->source_length_v6);
}

/* Returns whether anybody stays. */
static bool who_stays(const struct service_block *old,
		      const struct service_block *next, bool *stays)
{
	bool anybody = false;

	memset(stays, 0, 512 * sizeof(*stays));
	for (uint32_t i = 0; i < old->members && i < next->members; i++) {
		stays[i] = old->member[i].flags & MEMBER_KEEPS_FLOWS &&
			   next->member[i].flags & MEMBER_KEEPS_FLOWS &&
			   !memcmp(old->member[i].address,
				   next->member[i].address, 16);
		anybody |= stays[i];
	}
	return anybody;
}

static void close_all(struct service_block *next, const uint16_t *table,
		      const uint16_t *owner_of)
{
	for (uint32_t i = 0; i < next->slots; i++)
		next->slot[i] = owner_of[table[i]];
	next->open = 0;
	next->learning = 0;
	next->flags &= ~BLOCK_LEARNING;
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

/* Writes the owners of up to CHUNK slots; which of them were not closed with
 * that owner before goes to changed[]. Where those are is chance, so there is
 * no branch. */
static uint32_t write_owners(uint16_t *next, const uint16_t *old,
			     const uint16_t *table, const uint16_t *owner_of,
			     uint32_t count, uint16_t *changed)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint16_t owner = owner_of[table[i]];

		next[i] = owner;
		changed[found] = i;
		found += old[i] != owner;
	}
	return found;
}

struct change {
	const bool *stays;
	const uint16_t *old_slot, *old_before;
	uint16_t *slot, *before; /* slot[]: the owners */
	uint8_t *ages;
	bool at_before;
	bool moved; /* flows that were not of interest may be now */
	uint32_t open;
};

static void change_slot(struct change *change, uint32_t i)
{
	uint16_t owner = change->slot[i];
	struct slot_state old = {change->old_slot[i], 0}, next;

	/* not of closed slots: memory that is far from the processor */
	if (old.slot & SLOT_OPEN)
		old.before = change->old_before[i];
	next = slot_transition(old, owner, change->stays, change->at_before);
	if (!(next.slot & SLOT_OPEN))
		return;
	change->slot[i] = next.slot;
	change->before[i] = next.before;
	change->open++;
	if (next.slot == old.slot && next.before == old.before)
		return;
	__atomic_store_n(&change->ages[i], 0, __ATOMIC_RELAXED);
	change->moved |= (old.slot & SLOT_MEMBER) != owner;
}

void transition(struct oxp_node *node, uint32_t index,
		struct service_block *next, const struct service_block *old,
		const uint16_t *table, const uint16_t *owner_of)
{
	uint16_t changed[CHUNK];
	bool stays[512];
	struct change change = {
		.stays = stays,
		.slot = next->slot,
		.before = before_of(node, next),
		.ages = ages_of(node, index),
	};

	if (!old || !is_comparable(old, next) || !who_stays(old, next, stays)) {
		close_all(next, table, owner_of);
		return;
	}
	change.old_slot = old->slot;
	change.old_before = before_of(node, (struct service_block *)old);
	change.at_before = (entry_of(node, index)->protocol != IPPROTO_UDP &&
			    !(old->flags & OXP_SERVICE_SOURCE)) ||
			   old->flags & BLOCK_LEARNING;
	for (uint32_t i = 0; i < next->slots; i += CHUNK) {
		uint32_t count = next->slots - i, found;

		if (count > CHUNK)
			count = CHUNK;
		found = write_owners(next->slot + i, old->slot + i, table + i,
				     owner_of, count, changed);
		for (uint32_t j = 0; j < found; j++)
			change_slot(&change, i + changed[j]);
	}
	next->open = change.open < 65535 ? change.open : 65535;
	learn(node, index, next, old, change.open, change.moved);
}
