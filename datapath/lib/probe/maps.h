/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROBE_MAPS_H
#define OXP_PROBE_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct probe_maps {
	int targets, tokens, token_networks, outcomes; /* file descriptors */
};

/* -ENOENT: nothing is pinned. */
int open_probe_maps(const struct oxp_node *node, struct probe_maps *maps);

void close_probe_maps(struct probe_maps *maps);

#endif
