// SPDX-License-Identifier: Apache-2.0
#include "nat_table/peers.h"

#include "nat_table/addresses.h"
#include "state.h"

struct nat_peer_list *live_peers(struct oxp_node *node)
{
	return &node->nat->peer_list[node->nat->live_peers & 1];
}

uint32_t own_place(const struct oxp_node *node,
		   const struct nat_peer_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (find_pool_address(node, list->address[i]) >= 0)
			return i;
	return list->count;
}

void find_own_peer(struct oxp_node *node)
{
	struct nat_peer_list *list = live_peers(node);

	__atomic_store_n(&list->own, own_place(node, list), __ATOMIC_RELAXED);
}
