/* SPDX-License-Identifier: Apache-2.0 */
/* Flows that packets remember. */
#ifndef OXP_REMEMBERED_H
#define OXP_REMEMBERED_H

#include "harness.h"

/* As if all remembered flows had been refreshed this much later. Returns how
 * many there are. */
uint32_t refresh_later(struct oxp_node *node, int units);

/* Packets of flows that the full table did not take. */
uint64_t not_remembered(struct oxp_node *node);

#endif
