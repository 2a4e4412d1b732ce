// SPDX-License-Identifier: Apache-2.0
#include "nat_table/addresses.h"

#include <errno.h>
#include <string.h>

#include "state.h"

int64_t find_pool_address(const struct oxp_node *node, const void *address)
{
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++)
		if (node->nat->length[i] &&
		    !memcmp(node->nat->address[i], address, 16))
			return i;
	return -ENOENT;
}

uint32_t count_pool_addresses(const struct oxp_node *node)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < NAT_ADDRESSES; i++)
		count += !!node->nat->length[i];
	return count;
}
