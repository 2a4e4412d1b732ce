/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROBE_PROGRAM_H
#define OXP_PROBE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct probe;
struct probe_maps;

/* Load the program over these maps, or over new ones if `maps` is NULL. */
int load_probe_program(const struct oxp_node *node,
		       const struct probe_maps *maps, struct probe **out,
		       char *error);

#endif
