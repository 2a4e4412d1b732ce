/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of connections, which packets see at once: no switch is needed. */
#ifndef OXP_SERVICE_LIMIT_H
#define OXP_SERVICE_LIMIT_H

#include "state.h"

/* 0: none. */
static inline uint32_t connection_limit(const struct oxp_node *node,
					uint32_t index)
{
	return node->nat_services[index].limit;
}

/* Returns whether it was another one. */
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
