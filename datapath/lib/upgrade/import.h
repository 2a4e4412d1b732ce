/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_IMPORT_H
#define OXP_UPGRADE_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct import;

int imported_sizes(struct import *import, struct node_config *config,
		   char *error);

/* Fills an empty node with what packets do not write, and their ages of
 * slots. adopted: as in make_maps() */
int fill_node(struct oxp_node *node, const struct import *import,
	      const int adopted[MAPS], char *error);

#endif
