/* SPDX-License-Identifier: Apache-2.0 */
/* What packets remember of flows. */
#ifndef OXP_REMEMBERED_H
#define OXP_REMEMBERED_H

#include "harness.h"

/* As if what is remembered had been refreshed so much later. Returns how many
 * flows that are. */
uint32_t refresh_later(struct oxp_node *node, int units);

#endif
