/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_MAPS_H
#define OXP_NODE_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

void remove_pins(struct oxp_node *node);

int open_pins(struct oxp_node *node, const char *folder, char *error);

/* Whether `maps` are the maps that the node has open, or a negative errno. */
int is_in_force(struct oxp_node *node);

/* Returns the pinned layout version; -ENOENT: nothing is pinned. */
int pinned_layout(const char *pin_directory);

void unmap_all(struct oxp_node *node);

#endif
