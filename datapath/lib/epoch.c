// SPDX-License-Identifier: Apache-2.0
/*
 * Epochs record what was switched when, and what no packet uses any more: see
 * struct node_config.
 */
#include "epoch.h"

#include "state.h"
#include "synchronize.h"

int grace_period(struct oxp_node *node, char *error)
{
	struct node_config *config = node->config;
	int status = synchronize(error);

	if (status)
		return status;
	__atomic_store_n(&config->waited, config->epoch, __ATOMIC_RELEASE);
	__atomic_store_n(&config->epoch, config->epoch + 1, __ATOMIC_RELEASE);
	return 0;
}

void mark_switched(struct oxp_node *node, __u64 *switched)
{
	__atomic_store_n(&node->config->switched, node->config->epoch,
			 __ATOMIC_RELEASE);
	__atomic_store_n(switched, node->config->epoch, __ATOMIC_RELEASE);
}

void begin_change(struct oxp_node *node, bool dirty)
{
	struct node_config *config = node->config;
	uint64_t changes = config->changes + 1;

	/* our own changes keep the derived state of counters and lines valid */
	if (node->counters_changes == config->changes)
		node->counters_changes = changes;
	if (node->lines_changes == config->changes)
		node->lines_changes = changes;
	__atomic_store_n(&config->changes, changes, __ATOMIC_RELEASE);
	if (dirty)
		__atomic_store_n(&config->dirty, 1, __ATOMIC_RELEASE);
}

void end_change(struct oxp_node *node)
{
	__atomic_store_n(&node->config->dirty, 0, __ATOMIC_RELEASE);
}
