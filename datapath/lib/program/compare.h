/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROGRAM_COMPARE_H
#define OXP_PROGRAM_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct forward;

/* Whether the interface runs what load_program() made: the same instructions on
 * the same maps with the same constants. */
bool is_same_program(struct oxp_node *node, int link, struct forward *object);

/* Whether the program uses the map, or a negative errno. Unless `rodata` is
 * NULL, *rodata becomes a descriptor of the program's constants. */
int look_at_maps(int program, int map, int *rodata);

#endif
