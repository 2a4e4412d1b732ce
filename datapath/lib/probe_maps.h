/* SPDX-License-Identifier: Apache-2.0 */
/* What probe.c and probe_attach.c share. */
#ifndef OXP_PROBE_MAPS_H
#define OXP_PROBE_MAPS_H

#include "internal.h"

struct probe;

struct probe_maps {
	int targets, outcomes; /* file descriptors */
};

/* -ENOENT: nothing is pinned. */
int open_probe_maps(const struct oxp_node *node, struct probe_maps *maps);
void close_probe_maps(struct probe_maps *maps);

/* Loads the program over these maps; NULL: over new ones. */
int load_probe_program(const struct oxp_node *node,
		       const struct probe_maps *maps, struct probe **out,
		       char *error);
/* Detaches the program from all interfaces of the network namespace. Returns
 * from how many. */
int detach_probes(char *error);

#endif
