// SPDX-License-Identifier: Apache-2.0
/* A node: opening and closing it, its lock, and waiting for packets. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "internal.h"

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

void stamp(struct oxp_node *node, __u64 *switched)
{
	__atomic_store_n(&node->config->stamped, node->config->epoch,
			 __ATOMIC_RELEASE);
	__atomic_store_n(switched, node->config->epoch, __ATOMIC_RELEASE);
}

int settle(struct oxp_node *node, char *error)
{
	struct node_config *config = node->config;
	int status = lock_node(node, error);
	uint64_t epoch;

	if (status)
		return status;
	epoch = config->epoch;
	if (config->stamped <= config->waited) {
		unlock_node(node);
		return 0;
	}
	/* what is switched from here on is of the next epoch */
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

void begin_change(struct oxp_node *node, bool dirty)
{
	struct node_config *config = node->config;
	uint64_t changes = config->changes + 1;

	/* our own changes keep our idea of the counters up to date */
	if (node->counters_changes == config->changes)
		node->counters_changes = changes;
	__atomic_store_n(&config->changes, changes, __ATOMIC_RELEASE);
	if (dirty)
		__atomic_store_n(&config->dirty, 1, __ATOMIC_RELEASE);
}

void end_change(struct oxp_node *node)
{
	__atomic_store_n(&node->config->dirty, 0, __ATOMIC_RELEASE);
}

static int lock_file(struct oxp_node *node)
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
	status = lock_file(node);
	if (status) {
		pthread_mutex_unlock(&node->mutex);
		return failure(error, status, "cannot lock the node");
	}
	if (node->config->layout != OXP_LAYOUT)
		status = failure(error, -ESTALE,
				 "%s was destroyed or taken over by another "
				 "version meanwhile, open it again",
				 node->pin_directory);
	else if (node->config->dirty)
		status = mend(node, error);
	if (status)
		unlock_node(node);
	return status;
}

void unlock_node(struct oxp_node *node)
{
	flock(node->lock_fd, LOCK_UN);
	pthread_mutex_unlock(&node->mutex);
}

static int open_locked(struct oxp_node *node, const struct oxp_options *options,
		       char *error)
{
	int status;

	status = open_pins(node, "maps", error);
	if (status == -ENOENT && options->create) {
		status = create_pins(node, options, error);
		if (!status)
			status = open_pins(node, "maps", error);
	}
	if (!status)
		status = prepare_node(node, error);
	if (status)
		return status;
	if (node->config->dirty)
		return mend(node, error);
	/* of one who died after it had put another in its place */
	remove_folder(node, "maps-new");
	return 0;
}

int prepare_node(struct oxp_node *node, char *error)
{
	node->counter_free_since = calloc(node->config->members_max,
					  sizeof(*node->counter_free_since));
	return node->counter_free_since
		       ? 0
		       : failure(error, -ENOMEM, "cannot open the node");
}

static int open_node(struct oxp_node *node, const struct oxp_options *options,
		     char *error)
{
	int status;

	if (!can_synchronize())
		return failure(error, -ENOSYS,
			       "the kernel offers no global membarrier");
	node->lock_fd =
		open(options->lock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (node->lock_fd < 0)
		return failure(error, -errno, "cannot open the lock file %s",
			       options->lock_file);
	status = lock_file(node);
	if (status)
		return failure(error, status, "cannot lock %s",
			       options->lock_file);
	status = open_locked(node, options, error);
	flock(node->lock_fd, LOCK_UN);
	return status;
}

struct oxp_node *new_node(const struct oxp_options *options, char *error)
{
	struct oxp_node *node = calloc(1, sizeof(*node));

	if (node)
		node->pin_directory = strdup(options->pin_directory);
	if (!node || !node->pin_directory) {
		failure(error, -ENOMEM, "cannot open the node");
		free(node);
		return NULL;
	}
	pthread_mutex_init(&node->mutex, NULL);
	node->lock_fd = -1;
	for (int i = 0; i < MAPS; i++)
		node->map[i] = -1;
	catch_libbpf_messages();
	return node;
}

int oxp_open(const struct oxp_options *options, struct oxp_node **out,
	     char *error)
{
	struct oxp_node *node;
	int status;

	*out = NULL;
	if (!options->pin_directory || !options->lock_file)
		return failure(error, -EINVAL,
			       "a pin directory and a lock file are needed");
	node = new_node(options, error);
	if (!node)
		return -ENOMEM;
	status = open_node(node, options, error);
	if (status) {
		oxp_close(node);
		return status;
	}
	*out = node;
	return 0;
}

void oxp_close(struct oxp_node *node)
{
	if (!node)
		return;
	unmap_all(node);
	for (int i = 0; i < MAPS; i++)
		if (node->map[i] >= 0)
			close(node->map[i]);
	if (node->lock_fd >= 0)
		close(node->lock_fd);
	pthread_mutex_destroy(&node->mutex);
	free(node->allowed);
	free(node->counter_free_since);
	free(node->checks);
	free(node->pin_directory);
	free(node);
}
