/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_LOCK_H
#define OXP_NODE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

int lock_node(struct oxp_node *node, char *error);

void unlock_node(struct oxp_node *node);

/* Wait without holding the lock if anything was switched since the last wait,
 * so that the next update need not wait. */
int drain_grace_period(struct oxp_node *node, char *error);

/* The lock between processes only, for use before the state exists. */
int take_lock_file(struct oxp_node *node);
void release_lock_file(struct oxp_node *node);

#endif
