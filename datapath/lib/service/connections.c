// SPDX-License-Identifier: Apache-2.0
/*
 * Connections of services with a limit (bpf/forward/connections.h): limits, and
 * the end of what packets do not end. As there, who exchanges an entry counts.
 */
#include "service/connections.h"

#include "clock.h"
#include "table/blocks.h"

#define TIME_UNIT_SHIFT 30
#define IDLE_MAX 16000 /* units, as for packets */

static uint32_t service_of(uint64_t entry)
{
	return entry >> CONNECTION_SERVICE_SHIFT & CONNECTION_SERVICE_MASK;
}

/* Frees the place, unless a packet has changed it meanwhile. */
static void end(struct oxp_node *node, __u64 *at, __u64 entry)
{
	uint32_t service = service_of(entry);

	if (!__atomic_compare_exchange_n(at, &entry, 0, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) ||
	    entry & CONNECTION_CLOSED || service >= node->config->services_max)
		return;
	__atomic_fetch_sub(&node->connection_counts[service].open, 1,
			   __ATOMIC_RELAXED);
}

static void for_each_connection(struct oxp_node *node,
				bool (*is_over)(struct oxp_node *node,
						uint64_t entry,
						const void *argument),
				const void *argument)
{
	for (uint32_t i = 0; i < CONNECTION_SETS; i++)
		for (int way = 0; way < FLOW_SET_WAYS; way++) {
			__u64 *at = &node->connections[i].entry[way];
			__u64 entry = __atomic_load_n(at, __ATOMIC_RELAXED);

			if (entry && is_over(node, entry, argument))
				end(node, at, entry);
		}
}

static uint32_t timeout_of(struct oxp_node *node, uint64_t entry)
{
	const struct service_block *block;
	uint32_t index = service_of(entry);

	if (index >= node->config->services_max ||
	    entry_of(node, index)->state != ENTRY_USED)
		return 0;
	block = live_block(node, index);
	if (!(block->flags & BLOCK_LIMITED))
		return 0;
	if (entry & CONNECTION_CLOSED)
		return CONNECTION_CLOSED_AGE;
	if (!(entry & CONNECTION_CONFIRMED))
		return CONNECTION_OPENING_AGE;
	return block->idle_timeout_s < IDLE_MAX ? block->idle_timeout_s
						: IDLE_MAX;
}

static bool is_outdated(struct oxp_node *node, uint64_t entry, const void *now)
{
	uint32_t age =
		(*(const uint64_t *)now - (entry >> CONNECTION_TIME_SHIFT)) &
		FLOW_TIME_MASK;
	uint32_t timeout = timeout_of(node, entry);

	return !timeout || age > timeout;
}

/* Without limits and what they left there is nothing to look at. */
static bool has_any(struct oxp_node *node)
{
	for (uint32_t i = 0; i < node->config->services_max; i++)
		if (node->connection_counts[i].limit ||
		    node->connection_counts[i].open)
			return true;
	return false;
}

void age_connections(struct oxp_node *node)
{
	uint64_t now = coarse_time() >> TIME_UNIT_SHIFT;

	if (has_any(node))
		for_each_connection(node, is_outdated, &now);
}

static bool is_of_gone(struct oxp_node *node, uint64_t entry,
		       const void *argument)
{
	const uint64_t *gone = argument;
	uint32_t index = service_of(entry);

	return index < node->config->services_max &&
	       gone[index / 64] >> index % 64 & 1;
}

void forget_connections(struct oxp_node *node, const uint64_t *gone)
{
	bool limited = false;

	for (uint32_t i = 0; i < node->config->services_max; i++) {
		if (!(gone[i / 64] >> i % 64 & 1))
			continue;
		limited |= node->connection_counts[i].limit ||
			   node->connection_counts[i].open;
		node->connection_counts[i].limit = 0;
	}
	if (limited)
		for_each_connection(node, is_of_gone, gone);
}

uint32_t connection_limit(struct oxp_node *node, uint32_t index)
{
	return node->connection_counts[index].limit;
}

uint32_t open_connections(struct oxp_node *node, uint32_t index)
{
	return __atomic_load_n(&node->connection_counts[index].open,
			       __ATOMIC_RELAXED);
}

static bool is_of_service(struct oxp_node *node, uint64_t entry,
			  const void *index)
{
	(void)node;
	return service_of(entry) == *(const uint32_t *)index;
}

bool set_connection_limit(struct oxp_node *node, uint32_t index, uint32_t limit)
{
	struct connection_count *count = &node->connection_counts[index];

	if (count->limit == limit)
		return false;
	if (!count->limit)
		for_each_connection(node, is_of_service, &index);
	__atomic_store_n(&count->limit, limit, __ATOMIC_RELAXED);
	return true;
}
