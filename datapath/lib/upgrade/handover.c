// SPDX-License-Identifier: Apache-2.0
/* The side that hands over: called by another library. */
#include <errno.h>
#include <unistd.h>

#include "epoch.h"
#include "error.h"
#include "node/lock.h"
#include "node/repair.h"
#include "state.h"

int oxp_handover_begin(struct oxp_node *node, int *lock_file, char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	/* from here on a death leaves a state that the next user repairs */
	begin_change(node, true);
	node->handing_over = true;
	*lock_file = node->lock_fd;
	return 0;
}

int oxp_handover_end(struct oxp_node *node, uint8_t taken, char *error)
{
	int status = 0;

	if (!node->handing_over)
		return failure(error, -EINVAL, "no handover has begun");
	node->handing_over = false;
	if (taken)
		__atomic_store_n(&node->config->layout, 0, __ATOMIC_RELEASE);
	else
		status = repair(node, error);
	unlock_node(node);
	return status;
}
