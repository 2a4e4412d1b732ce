// SPDX-License-Identifier: Apache-2.0
#include "nat_table/pools.h"

#include "address.h"
#include "error.h"
#include "nat_table/addresses.h"
#include "nat_table/index.h"
#include "nat_table/peers.h"
#include "nat_table/shares.h"
#include "nat_table/tables.h"
#include "state.h"
#include "table/lookup.h"

void write_pool_lists(struct oxp_node *node, const bool leaving[NAT_ADDRESSES])
{
	struct nat_pools *pools = node->nat;
	uint32_t count[2] = {};

	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		bool v6 = !is_pool_v4(i);

		if (!pools->length[i] || (leaving && leaving[i]))
			continue;
		__atomic_store_n(&pools->number[v6][count[v6]++], i,
				 __ATOMIC_RELEASE);
	}
	pools->ports = (count[0] + count[1]) * PORTS_OF_ADDRESS;
	for (int v6 = 0; v6 < 2; v6++)
		__atomic_store_n(&pools->count[v6], count[v6],
				 __ATOMIC_RELEASE);
	share_nat_ports(node);
	find_own_peer(node);
}

int enter_pool_key(struct oxp_node *node, uint32_t number, char *error)
{
	struct lookup_key key = lookup_key(node->nat->address[number], 0, 0);
	int64_t place = lookup_find(node, &key);

	if (place < 0)
		place = lookup_insert(node, &key, LOOKUP_POOL | number);
	if (place < 0)
		return failure(error, place,
			       "the lookup table has no room near the pool "
			       "address %s",
			       address_text(node->nat->address[number]));
	return 0;
}

void erase_pool_key(struct oxp_node *node, uint32_t number)
{
	struct lookup_key key = lookup_key(node->nat->address[number], 0, 0);
	int64_t place = lookup_find(node, &key);

	if (place >= 0 &&
	    *lookup_value(node, key.v6, place) == (LOOKUP_POOL | number))
		lookup_erase(node, &key, place);
}

void keep_pool_keys(struct oxp_node *node, uint64_t *keep[2])
{
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		struct lookup_key key;
		int64_t place;

		if (!node->nat->length[i])
			continue;
		key = lookup_key(node->nat->address[i], 0, 0);
		place = lookup_find(node, &key);
		if (place >= 0 &&
		    *lookup_value(node, key.v6, place) == (LOOKUP_POOL | i))
			keep[key.v6][place / 64] |= 1ULL << place % 64;
	}
}

/* Drop addresses that have no table or whose key finds no room. */
int repair_pools(struct oxp_node *node, char *error)
{
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		if (node->nat->length[i] &&
		    (!nat_table(node, i) || enter_pool_key(node, i, NULL)))
			node->nat->length[i] = 0;
		if (!node->nat->length[i])
			remove_nat_table(node, i);
	}
	node->config->nat_addresses = count_pool_addresses(node);
	write_pool_lists(node, NULL);
	return node->config->nat_addresses
		       ? size_nat_index(node, node->nat->ports, error)
		       : 0;
}

int adopt_pools(struct oxp_node *node, const char *from, char *error)
{
	int status = adopt_nat_tables(node, from, error);

	if (!status)
		status = adopt_nat_index(node, from, error);
	for (uint32_t i = 0; i < NAT_ADDRESSES && !status; i++)
		if (node->nat->length[i])
			status = enter_pool_key(node, i, error);
	return status;
}
