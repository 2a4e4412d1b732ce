/* SPDX-License-Identifier: Apache-2.0 */
/* Connection limits. Packets read them directly: no switch is needed. */
#ifndef OXP_SERVICE_LIMIT_H
#define OXP_SERVICE_LIMIT_H

#include "state.h"

/* Returns 0 for no limit. */
static inline uint32_t connection_limit(const struct oxp_node *node,
					uint32_t index)
{
	return node->nat_services[index].limit;
}

/* Returns whether the limit changed. */
static inline bool set_connection_limit(struct oxp_node *node, uint32_t index,
					uint32_t limit)
{
	uint32_t *at = &node->nat_services[index].limit;

	if (*at == limit)
		return false;
	__atomic_store_n(at, limit, __ATOMIC_RELAXED);
	return true;
}

#endif
