/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_SETTINGS_H
#define OXP_NODE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The caller holds the lock. */
void read_node_settings(struct oxp_node *node, struct oxp_node_settings *out);

int write_first_settings(struct oxp_node *node,
			 const struct oxp_node_settings *settings, char *error);

#endif
