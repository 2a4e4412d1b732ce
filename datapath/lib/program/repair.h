/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_PROGRAM_REPAIR_H
#define OXP_PROGRAM_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Replace attached programs that use other maps by this library's. */
int repair_programs(struct oxp_node *node, char *error);

#endif
