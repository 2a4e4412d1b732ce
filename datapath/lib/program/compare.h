/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROGRAM_COMPARE_H
#define OXP_PROGRAM_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct forward;

/* Whether an interface's program is what load_program() made: the same
 * instructions on the same maps, with the same constants. */
bool is_same_program(struct oxp_node *node, int link, struct forward *object);

/* Whether the program uses the map, or a negative errno; its constants in
 * *rodata, unless that is NULL. */
int look_at_maps(int program, int map, int *rodata);

#endif
