/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from the addresses of pools: the key of each in the lookup
 * tables, and the lists that packets choose from. With the node's lock.
 */
#ifndef OXP_NAT_TABLE_POOLS_H
#define OXP_NAT_TABLE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Whether the number is one of an IPv4 address, or else of an IPv6 one. */
static inline bool is_pool_v4(uint32_t number)
{
	return number < OXP_NAT_ADDRESSES_MAX;
}

/* The lists and numbers that packets read, without addresses that are
 * `leaving`, which may be NULL. */
void write_pool_lists(struct oxp_node *node, const bool leaving[NAT_ADDRESSES]);

int enter_pool_key(struct oxp_node *node, uint32_t number, char *error);
void erase_pool_key(struct oxp_node *node, uint32_t number);

/* Makes lists and keys what the addresses that have tables say, after a death
 * in a change; `keep` gets a bit for each key's place, as repairing has it. */
void keep_pool_keys(struct oxp_node *node, uint64_t *keep[2]);
int repair_pools(struct oxp_node *node, char *error);

/* Of a node whose maps of NAT are those of another one, whose pins are in the
 * folder `from`, and which goes on until this one takes its place. */
int adopt_pools(struct oxp_node *node, const char *from, char *error);

#endif
