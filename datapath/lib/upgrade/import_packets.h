/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_IMPORT_PACKETS_H
#define OXP_UPGRADE_IMPORT_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct import;

/* Flows of a map that is not adopted. What packets have remembered in the new
 * one meanwhile stays. */
int fill_flows(struct oxp_node *node, const struct import *import, char *error);

/* Ages and counters of maps that are not adopted, when no packet uses the old
 * ones any more. */
int fill_counters(struct oxp_node *node, const struct import *import,
		  const int adopted[MAPS], char *error);

#endif
