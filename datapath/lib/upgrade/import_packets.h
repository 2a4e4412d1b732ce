/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_UPGRADE_IMPORT_PACKETS_H
#define OXP_UPGRADE_IMPORT_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct import;

/* Fill in flows, if their map was not adopted. Newer entries by packets
 * stay. */
int fill_flows(struct oxp_node *node, const struct import *import, char *error);

/* Fill in ages, and counters whose maps were not adopted. No packet may use the
 * old ones any more. */
int fill_counters(struct oxp_node *node, const struct import *import,
		  const int adopted[MAPS], char *error);

#endif
