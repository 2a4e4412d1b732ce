/* SPDX-License-Identifier: Apache-2.0 */
/* Flows that packets remember. */
#ifndef OXP_REMEMBERED_H
#define OXP_REMEMBERED_H

#include "harness.h"

/* Makes all remembered flows refreshed this much later. Returns their
 * number. */
uint32_t refresh_later(struct oxp_node *node, int units);

/* Packets of flows that the full table did not take. */
uint64_t not_remembered(struct oxp_node *node);

#endif
