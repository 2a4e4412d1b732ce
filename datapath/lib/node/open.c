// SPDX-License-Identifier: Apache-2.0
/* Opening and closing a node. */
#include "node/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "error.h"
#include "load/load.h"
#include "node/create.h"
#include "node/lock.h"
#include "node/maps.h"
#include "node/repair.h"
#include "pins.h"
#include "state.h"
#include "synchronize.h"

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
		return repair(node, error);
	/* left by a process that died after it had exchanged the folders */
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
	/* others may be able to write to the directory: follow no symlink */
	node->lock_fd = open(options->lock_file,
			     O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (node->lock_fd < 0)
		return failure(error, -errno, "cannot open the lock file %s",
			       options->lock_file);
	status = take_lock_file(node);
	if (status)
		return failure(error, status, "cannot lock %s",
			       options->lock_file);
	status = open_locked(node, options, error);
	release_lock_file(node);
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
	free(node->counter_free_since);
	free(node->line_used);
	free(node->checks);
	free(node->watch.of_service);
	free(node->pin_directory);
	free(node);
}
