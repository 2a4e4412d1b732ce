/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROGRAM_REPLACE_H
#define OXP_PROGRAM_REPLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct forward;

/* Replace the program of all links that have another one; all or none. */
int replace_programs(struct oxp_node *node, struct forward *object,
		     char *error);

#endif
