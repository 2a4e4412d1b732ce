/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROGRAM_LOAD_H
#define OXP_PROGRAM_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct forward;

/* Set the constants of a program that is not loaded yet. */
void configure_program(struct forward *object, const struct node_config *config,
		       uint32_t flags);

int load_program(struct oxp_node *node, uint32_t flags, struct forward **out,
		 char *error);

#endif
