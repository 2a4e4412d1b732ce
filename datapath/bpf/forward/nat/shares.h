/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many ports a group of services has, and may have. A part of all ports is
 * kept, an equal number for each group. Ports beyond that are counted for all
 * groups together, and limited to those that are not kept. So a group gets the
 * ports kept for it, up to its own limit, no matter how many the others use.
 */
#ifndef OXP_NAT_SHARES_H
#define OXP_NAT_SHARES_H

#include "forward/block.h"
#include "forward/nat/flow.h"
#include "verifier.h"

static __always_inline struct nat_group *nat_group_in(void *groups, __u64 group)
{
	_Static_assert(sizeof(struct nat_group) == 32768 &&
			       OXP_NAT_GROUPS == 256,
		       "mask");
	MASK(group, 255);
	return groups + group * sizeof(struct nat_group);
}

/* Whether the flow's port belongs to an IPv6 address. */
static __always_inline bool nat_port_is_v6(__u32 number)
{
	return number >> 16 >= OXP_NAT_ADDRESSES_MAX;
}

/* `change` is 1 if the flow begins, -1 if it ends. */
static __always_inline void nat_count_flow(struct nat_flow *flow, __u32 number,
					   int change)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	const struct nat_pools *pools = nat_pools_of_node();
	bool v6 = nat_port_is_v6(number);
	struct nat_group *group;
	__u32 before, kept;

	if (!groups || !pools)
		return;
	group = nat_group_in(groups, flow->group);
	if (change > 0)
		flow->in_v6 = v6;
	before = __sync_fetch_and_add(&group->flows, change);
	if (flow->in_v6)
		before = __sync_fetch_and_add(&group->flows_v6, change);
	else
		before -= READ_ONCE(group->flows_v6);
	before &= ~NAT_TAKEN_OUT;
	kept = READ_ONCE(pools->kept[v6 ? 1 : 0]);
	if (change > 0 ? before >= kept : before > kept)
		__sync_fetch_and_add(&nat_group_in(groups, v6)->beyond, change);
}

/* Whether the group may have another port of this family. */
static __always_inline bool nat_has_share(const struct service_block *block,
					  const struct nat_pools *pools,
					  bool v6)
{
	__u32 most = block->nat_flows * NAT_FLOWS_UNIT, flows, in_v6, beyond;
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	const struct nat_group *group;

	if (!groups)
		return false;
	group = nat_group_in(groups, block->nat_group);
	flows = READ_ONCE(group->flows) & ~NAT_TAKEN_OUT;
	if (flows >= (most ? most : pools->ports / 2))
		return false;
	in_v6 = READ_ONCE(group->flows_v6) & ~NAT_TAKEN_OUT;
	beyond = READ_ONCE(pools->beyond_most[v6 ? 1 : 0]);
	if (!beyond ||
	    (v6 ? in_v6 : flows - in_v6) < READ_ONCE(pools->kept[v6 ? 1 : 0]))
		return true;
	/* below 0 counts as 0: the correction may have been a moment late */
	return (int)READ_ONCE(nat_group_in(groups, v6)->beyond) < (int)beyond;
}

static __always_inline void nat_count_active(__u32 service, int change)
{
	struct nat_service *active =
		bpf_map_lookup_elem(&nat_services, &service);

	if (active)
		__sync_fetch_and_add(&active->active, change);
}

#endif
