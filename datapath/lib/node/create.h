/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_CREATE_H
#define OXP_NODE_CREATE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct forward;

int create_pins(struct oxp_node *node, const struct oxp_options *options,
		char *error);

void size_maps(struct forward *object, const struct node_config *config);

int draw_seed(uint64_t *seed);

/* Compute the sizes of a state. The caller sets the seed. */
int size_state(const struct oxp_options *options, struct node_config *config,
	       char *error);

/* Create maps and a program that uses them, and pin the maps in `maps-new`.
 * adopted[]: descriptors of existing maps to use instead of new ones, or -1. */
int make_maps(const struct oxp_node *node, const struct node_config *config,
	      const int adopted[MAPS], struct forward **out, char *error);

#endif
