// SPDX-License-Identifier: Apache-2.0
#include "nat_table/shares.h"

#include "nat_table/addresses.h"
#include "nat_table/tables.h"
#include "state.h"
#include "table/blocks.h"

static uint32_t count_groups(struct oxp_node *node)
{
	bool there[OXP_NAT_GROUPS] = {};
	uint32_t count = 0;

	FOR_EACH_SERVICE(node, i) {
		const struct service_block *block = live_block(node, i);

		if (!(block->flags & OXP_SERVICE_NAT) ||
		    there[block->nat_group])
			continue;
		there[block->nat_group] = true;
		count++;
	}
	return count;
}

/* Returns how many flows of a group are of this family. */
static uint32_t flows_in(const struct nat_group *group, int v6)
{
	uint32_t six = __atomic_load_n(&group->flows_v6, __ATOMIC_RELAXED);
	uint32_t flows = __atomic_load_n(&group->flows, __ATOMIC_RELAXED);

	six &= ~NAT_TAKEN_OUT;
	flows &= ~NAT_TAKEN_OUT;
	if (v6)
		return six;
	return flows > six ? flows - six : 0;
}

/* Adds the difference rather than storing the sum: packets go on counting. */
static void correct_beyond(struct nat_group *groups, int v6, uint32_t kept)
{
	uint32_t before = __atomic_load_n(&groups[v6].beyond, __ATOMIC_RELAXED);
	uint32_t beyond = 0;

	for (int i = 0; i < OXP_NAT_GROUPS; i++) {
		uint32_t flows = flows_in(&groups[i], v6);

		beyond += flows > kept ? flows - kept : 0;
	}
	__atomic_add_fetch(&groups[v6].beyond, beyond - before,
			   __ATOMIC_RELAXED);
}

void share_nat_ports(struct oxp_node *node)
{
	struct nat_group *groups = nat_groups(node);
	struct nat_pools *pools = node->nat;
	uint32_t parts;

	if (!groups)
		return;
	parts = count_groups(node) + 1;
	if (parts > OXP_NAT_GROUPS)
		parts = OXP_NAT_GROUPS;
	for (int v6 = 0; v6 < 2; v6++) {
		uint32_t ports = pools->count[v6] * PORTS_OF_ADDRESS;
		uint32_t kept = ports / 2 / parts;

		__atomic_store_n(&pools->kept[v6], kept, __ATOMIC_RELAXED);
		__atomic_store_n(&pools->beyond_most[v6], ports - kept * parts,
				 __ATOMIC_RELAXED);
		correct_beyond(groups, v6, kept);
	}
}
