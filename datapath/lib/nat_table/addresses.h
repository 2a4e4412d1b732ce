/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a node's pools: those with a length in nat_pools. */
#ifndef OXP_NAT_TABLE_ADDRESSES_H
#define OXP_NAT_TABLE_ADDRESSES_H

#include <stdint.h>

#include "state.h"

#define PORTS_OF_ADDRESS (65536 - OXP_NAT_PORT_MIN)

/* Returns the number of the address or -ENOENT. */
int64_t find_pool_address(const struct oxp_node *node, const void *address);

uint32_t count_pool_addresses(const struct oxp_node *node);

#endif
