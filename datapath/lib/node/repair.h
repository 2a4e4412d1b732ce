/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_REPAIR_H
#define OXP_NODE_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

int repair(struct oxp_node *node, char *error);

#endif
