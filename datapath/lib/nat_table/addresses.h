/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a node's pools: those that have a length in nat_pools. */
#ifndef OXP_NAT_TABLE_ADDRESSES_H
#define OXP_NAT_TABLE_ADDRESSES_H

#include <stdint.h>

#include "state.h"

#define PORTS_OF_ADDRESS (65536 - OXP_NAT_PORT_MIN)

/* Number of the address, -ENOENT. */
int64_t find_pool_address(const struct oxp_node *node, const void *address);

uint32_t count_pool_addresses(const struct oxp_node *node);

#endif
