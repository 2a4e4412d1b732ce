/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_OPEN_H
#define OXP_NODE_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Allocate a node that has nothing open yet; oxp_close() frees it. */
struct oxp_node *new_node(const struct oxp_options *options, char *error);

int prepare_node(struct oxp_node *node, char *error);

#endif
