/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Half-open flows of a group: a ring in which a new flow replaces one that
 * began long ago. UDP queries stay half open after their reply, as most clients
 * send nothing more. Nothing waits for those, so they are replaced first.
 */
#ifndef OXP_NAT_HALF_OPEN_H
#define OXP_NAT_HALF_OPEN_H

#include "forward/nat/claim.h"
#include "verifier.h"

/* Half-open flows examined at most when the group has all its flows. */
#define NAT_TRY_EVICT 16
/* Places examined at most if the flow at the next one is waiting. */
#define NAT_TRY_PLACES 16

enum nat_entry {
	NAT_ENTRY_OVER, /* not a half-open flow */
	NAT_ENTRY_ANSWERED,
	NAT_ENTRY_WAITS, /* for a reply, or for the end of a handshake */
};

static __always_inline __u64 *nat_ring_in(void *groups, __u64 group,
					  __u32 position)
{
	__u64 place = position % NAT_RING;

	MASK(group, 255);
	MASK(place, 4095);
	if (place >= NAT_RING)
		place = 0;
	return groups + group * sizeof(struct nat_group) +
	       offsetof(struct nat_group, ring) + place * sizeof(__u64);
}

/* Ends the flow at a place of the ring if it is still half open. */
static __always_inline bool nat_evict(__u64 entry)
{
	struct nat_flow *flow = nat_flow_at(entry);
	__u32 state;

	if (!entry || !flow)
		return false;
	state = READ_ONCE(flow->state);
	if (nat_state_of(state) != NAT_HALF_OPEN ||
	    READ_ONCE(flow->stamp) != entry >> 32 || !nat_claim(entry, state))
		return false;
	nat_free(entry);
	return true;
}

__noinline int nat_look_at_entry(__u32 number, __u32 stamp)
{
	const struct nat_flow *flow = nat_flow_at(number);
	__u32 state;

	if (!flow)
		return NAT_ENTRY_OVER;
	state = READ_ONCE(flow->state);
	if (nat_state_of(state) != NAT_HALF_OPEN ||
	    READ_ONCE(flow->stamp) != stamp)
		return NAT_ENTRY_OVER;
	return flow->protocol == IPPROTO_UDP && state & NAT_REPLIED
		       ? NAT_ENTRY_ANSWERED
		       : NAT_ENTRY_WAITS;
}

static __always_inline int nat_entry_of(__u64 entry)
{
	return entry ? nat_look_at_entry(entry, entry >> 32) : NAT_ENTRY_OVER;
}

/* Moves the flow at place `waits` to that of the flow at `answered`. */
static __always_inline void nat_move_up(void *groups, __u32 group, __u32 waits,
					__u32 answered, __u64 entry)
{
	__u64 *place = nat_ring_in(groups, group, waits);
	__u64 moved = READ_ONCE(*place);

	/* on a lost race the flow may have two places, which is harmless */
	if (__sync_val_compare_and_swap(nat_ring_in(groups, group, answered),
					entry, moved) == entry)
		__sync_val_compare_and_swap(place, moved, 0);
}

/* Ends the group's oldest half-open flow, preferably an answered one if that is
 * found soon. Entries that are over are skipped for good, so that the next
 * search starts after them. Returns whether a flow was ended. */
__noinline int nat_evict_oldest(__u32 group)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	__u32 head, tail, waits = 0;
	struct nat_group *ring;
	__u64 chosen = 0;

	if (!groups)
		return false;
	ring = nat_group_in(groups, group);
	head = READ_ONCE(ring->head);
	tail = READ_ONCE(ring->tail);
	if (head - tail > NAT_RING)
		tail = head - NAT_RING;
	for (__u32 i = 0, place = tail; i < NAT_TRY_EVICT && place != head;
	     i++, place++) {
		__u64 entry = READ_ONCE(*nat_ring_in(groups, group, place));
		int kind = nat_entry_of(entry);

		if (kind == NAT_ENTRY_OVER && !chosen)
			tail = place + 1;
		if (kind == NAT_ENTRY_WAITS && !chosen) {
			chosen = entry;
			waits = place;
		}
		if (kind != NAT_ENTRY_ANSWERED)
			continue;
		if (chosen)
			nat_move_up(groups, group, waits, place, entry);
		chosen = entry;
		break;
	}
	/* another CPU may have got further: the next search will, too */
	WRITE_ONCE(ring->tail, tail);
	return nat_evict(chosen);
}

static __always_inline bool nat_waits_at(void *groups, __u32 group,
					 __u32 position)
{
	return nat_entry_of(READ_ONCE(*nat_ring_in(groups, group, position))) ==
	       NAT_ENTRY_WAITS;
}

/* If the flow at the next place is waiting, looks for a later place whose flow
 * is not, so that those in between stay for another turn. Returns its position,
 * or that of the next place. */
static __always_inline __u32 nat_look_ahead(void *groups, __u32 group)
{
	__u32 head = READ_ONCE(nat_group_in(groups, group)->head);
	__u32 ahead;

	if (!nat_waits_at(groups, group, head)) {
		WRITE_ONCE(nat_group_in(groups, group)->looked, head);
		return head;
	}
	/* continue the last search: a long run of waiting flows loses some
	 * until it is passed, and in a flood each packet examines one place */
	ahead = READ_ONCE(nat_group_in(groups, group)->looked) - head;
	if (!ahead || ahead >= NAT_RING)
		ahead = 1;
	for (__u32 i = 0; i < NAT_TRY_PLACES && ahead < NAT_RING; i++) {
		if (!nat_waits_at(groups, group, head + ahead))
			return head + ahead;
		ahead++;
	}
	WRITE_ONCE(nat_group_in(groups, group)->looked, head + ahead);
	return head;
}

/* Enters a flow that has just become half open. Returns the entry that it
 * replaces, for eviction by the caller, whose stack is nearly full. */
__noinline __u64 nat_enter_ring(__u32 group, __u64 entry)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	__u32 position, *head;
	__u64 before, *place;

	if (!groups)
		return 0;
	position = nat_look_ahead(groups, group);
	place = nat_ring_in(groups, group, position);
	before = READ_ONCE(*place);
	head = &nat_group_in(groups, group)->head;
	if (__sync_val_compare_and_swap(place, before, entry) == before) {
		/* never moves back */
		if ((int)(position - READ_ONCE(*head)) >= 0)
			WRITE_ONCE(*head, position + 1);
		return before;
	}
	position = __sync_fetch_and_add(head, 1);
	return __sync_lock_test_and_set(nat_ring_in(groups, group, position),
					entry);
}

#endif
