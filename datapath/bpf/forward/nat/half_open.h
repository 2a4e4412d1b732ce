/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Half-open flows of a group: a ring, in which a new one takes the place of one
 * that began long ago.
 */
#ifndef OXP_NAT_HALF_OPEN_H
#define OXP_NAT_HALF_OPEN_H

#include "forward/count.h"
#include "forward/nat/claim.h"

/* Half-open flows that are looked at when the group has all its flows. */
#define NAT_TRY_EVICT 16

static __always_inline __u64 *nat_ring_in(void *groups, __u64 group,
					  __u32 position)
{
	__u64 place = position % NAT_RING;

	asm volatile("%0 &= 255" : "+r"(group));
	asm volatile("%0 &= 4095" : "+r"(place));
	if (place >= NAT_RING)
		place = 0;
	return groups + group * sizeof(struct nat_group) +
	       offsetof(struct nat_group, ring) + place * sizeof(__u64);
}

/* The flow that a place of the ring names, if it is still half open. */
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

/* The group's oldest half-open flow, if it is found soon: what is passed here
 * is not looked at again, so that the next search goes on from there. Returns
 * whether one ended. */
__noinline int nat_evict_oldest(__u32 group)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	struct nat_group *ring;
	__u32 head, tail;
	int found = false;

	if (!groups)
		return false;
	ring = nat_group_in(groups, group);
	head = READ_ONCE(ring->head);
	tail = READ_ONCE(ring->tail);
	if (head - tail > NAT_RING)
		tail = head - NAT_RING;
	for (__u32 i = 0; i < NAT_TRY_EVICT && tail != head && !found; i++)
		found = nat_evict(
			READ_ONCE(*nat_ring_in(groups, group, tail++)));
	/* another CPU may have come further: the next search does again */
	WRITE_ONCE(ring->tail, tail);
	return found;
}

/* Of a flow that has just become half open. */
static __always_inline void nat_enter_ring(struct xdp_md *ctx, __u32 group,
					   __u64 entry)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	__u32 position;
	__u64 before;

	if (!groups)
		return;
	position = __sync_fetch_and_add(&nat_group_in(groups, group)->head, 1);
	before = __sync_lock_test_and_set(nat_ring_in(groups, group, position),
					  entry);
	if (nat_evict(before))
		count(ctx, OXP_NAT_EVICTED);
}

#endif
