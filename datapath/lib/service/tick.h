/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_TICK_H
#define OXP_SERVICE_TICK_H

#include <stdint.h>

#include "state.h"

/* As if so many seconds went by in which no flow of another member than a
 * slot's own sends a packet. Of a block that no packet reads. */
void pass_time(struct oxp_node *node, struct service_block *block,
	       uint32_t seconds);

#endif
