/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is derived from the addresses of pools: their keys in the lookup tables,
 * and the lists that packets choose from. The caller holds the node's lock.
 */
#ifndef OXP_NAT_TABLE_POOLS_H
#define OXP_NAT_TABLE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Whether the number is one of an IPv4 address. */
static inline bool is_pool_v4(uint32_t number)
{
	return number < OXP_NAT_ADDRESSES_MAX;
}

/* Write the lists and counts that packets read, without the addresses in
 * `leaving`, which may be NULL. */
void write_pool_lists(struct oxp_node *node, const bool leaving[NAT_ADDRESSES]);

int enter_pool_key(struct oxp_node *node, uint32_t number, char *error);
void erase_pool_key(struct oxp_node *node, uint32_t number);

/* Restore keys and lists from the addresses that have tables, after a death in
 * a change. `keep` gets a bit for each key's place, see node/repair.c. */
void keep_pool_keys(struct oxp_node *node, uint64_t *keep[2]);
int repair_pools(struct oxp_node *node, char *error);

/* Adopt pools whose maps are those of another node, pinned in the folder
 * `from`, which keeps using them until this one replaces it. */
int adopt_pools(struct oxp_node *node, const char *from, char *error);

#endif
