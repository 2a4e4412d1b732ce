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
#include <netinet/in.h>
#include <string.h>

#include "internal.h"

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
	bool tells = entry_of(node, index)->protocol != IPPROTO_UDP &&
		     !(next->flags & OXP_SERVICE_SOURCE);

	next->flags &= ~BLOCK_LEARNING;
	next->learning = 0;
	if (tells || !open)
		return;
	if (moved)
		next->learning = next->idle_timeout;
	else if (old->flags & BLOCK_LEARNING)
		next->learning = old->learning;
	if (next->learning)
		next->flags |= BLOCK_LEARNING;
}

void transition(struct oxp_node *node, uint32_t index,
		struct service_block *next, const struct service_block *old,
		const uint16_t *table, const uint16_t *owner_of)
{
	uint16_t *before = before_of(node, next);
	uint8_t *ages = ages_of(node, index);
	const uint16_t *old_before;
	bool stays[512], at_before, moved = false;
	uint32_t open = 0;

	if (!old || !is_comparable(old, next) || !who_stays(old, next, stays)) {
		close_all(next, table, owner_of);
		return;
	}
	old_before = before_of(node, (struct service_block *)old);
	at_before = (entry_of(node, index)->protocol != IPPROTO_UDP &&
		     !(old->flags & OXP_SERVICE_SOURCE)) ||
		    old->flags & BLOCK_LEARNING;
	for (uint32_t i = 0; i < next->slots; i++) {
		uint16_t owner = owner_of[table[i]], slot = old->slot[i];
		struct slot_state state;

		if (slot == owner) { /* closed, and nothing happens */
			next->slot[i] = owner;
			continue;
		}
		state = slot_transition(
			(struct slot_state){slot, old_before[i]}, owner, stays,
			at_before);
		next->slot[i] = state.slot;
		before[i] = state.before;
		if (!(state.slot & SLOT_OPEN))
			continue;
		open++;
		/* flows that were not of interest may be now */
		if (state.slot != slot || state.before != old_before[i]) {
			__atomic_store_n(&ages[i], 0, __ATOMIC_RELAXED);
			moved |= (slot & SLOT_MEMBER) != owner;
		}
	}
	next->open = open < 65535 ? open : 65535;
	learn(node, index, next, old, open, moved);
}
