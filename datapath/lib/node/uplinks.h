/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_UPLINKS_H
#define OXP_NODE_UPLINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

uint32_t read_uplinks(struct oxp_node *node, struct oxp_uplink *out,
		      uint32_t capacity, struct oxp_choices *choices);

/* Write to a state that no packet reads yet. */
int write_first_uplinks(struct oxp_node *node, const struct oxp_uplink *uplinks,
			uint32_t count, const struct oxp_choices *choices,
			char *error);

/* Watch the flows of config->watched, as far as there is room for copies of
 * uplinks. Does nothing if they are watched already. */
int watch_uplinks(struct oxp_node *node, char *error);

/* Returns the choices of config->watched whose flows are watched, as bits. */
uint64_t watched_choices(struct oxp_node *node);

#endif
