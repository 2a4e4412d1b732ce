/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROBE_CREATE_H
#define OXP_PROBE_CREATE_H

#include "probe/maps.h"

/* To be called under the node's lock. */
int open_or_create_probe_maps(const struct oxp_node *node,
			      struct probe_maps *maps, char *error);

#endif
