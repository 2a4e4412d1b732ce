/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_POOLS_H
#define OXP_NAT_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Number of the address, -ENOENT. */
int64_t find_pool_address(const struct oxp_node *node, const void *address);

/* Makes lists and keys what the addresses that have tables say, after a death
 * in a change; `keep` gets a bit for each key's place, as repairing has it. */
void keep_pool_keys(struct oxp_node *node, uint64_t *keep[2]);
int repair_pools(struct oxp_node *node, char *error);

/* Of a node whose maps of NAT are those of another one, whose pins are in the
 * folder `from`, and which goes on until this one takes its place. */
int adopt_pools(struct oxp_node *node, const char *from, char *error);

/* Number of addresses. */
uint32_t count_pool_addresses(const struct oxp_node *node);

#endif
