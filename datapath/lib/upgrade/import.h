/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_IMPORT_H
#define OXP_UPGRADE_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct import;

int imported_sizes(struct import *import, struct node_config *config,
		   char *error);

/* Fill an empty node with everything that packets do not write, and slots'
 * ages. */
int fill_node(struct oxp_node *node, const struct import *import, char *error);

#endif
