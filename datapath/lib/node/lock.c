// SPDX-License-Identifier: Apache-2.0
/* The lock of a node, between threads and between processes. */
#include "node/lock.h"

#include <errno.h>
#include <sys/file.h>

#include "error.h"
#include "node/repair.h"
#include "state.h"
#include "synchronize.h"
#include "table/segments.h"

int take_lock_file(struct oxp_node *node)
{
	while (flock(node->lock_fd, LOCK_EX))
		if (errno != EINTR)
			return -errno;
	return 0;
}

int lock_node(struct oxp_node *node, char *error)
{
	int status;

	pthread_mutex_lock(&node->mutex);
	status = take_lock_file(node);
	if (status) {
		pthread_mutex_unlock(&node->mutex);
		return failure(error, status, "cannot lock the node");
	}
	if (node->config->layout != OXP_LAYOUT)
		status = failure(error, -ESTALE,
				 "%s was destroyed or taken over by another "
				 "version meanwhile, open it again",
				 node->pin_directory);
	else
		status = map_segments(node, error);
	if (!status && node->config->dirty)
		status = repair(node, error);
	if (status)
		unlock_node(node);
	return status;
}

void release_lock_file(struct oxp_node *node)
{
	flock(node->lock_fd, LOCK_UN);
}

void unlock_node(struct oxp_node *node)
{
	release_lock_file(node);
	pthread_mutex_unlock(&node->mutex);
}

int drain_grace_period(struct oxp_node *node, char *error)
{
	struct node_config *config = node->config;
	int status = lock_node(node, error);
	uint64_t epoch;

	if (status)
		return status;
	epoch = config->epoch;
	if (config->switched <= config->waited) {
		unlock_node(node);
		return 0;
	}
	/* whatever is switched from now on belongs to the next epoch */
	__atomic_store_n(&config->epoch, epoch + 1, __ATOMIC_RELEASE);
	unlock_node(node);
	status = synchronize(error);
	if (!status)
		status = lock_node(node, error);
	if (status)
		return status;
	if (config->waited < epoch)
		__atomic_store_n(&config->waited, epoch, __ATOMIC_RELEASE);
	unlock_node(node);
	return 0;
}
