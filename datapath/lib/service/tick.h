/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_TICK_H
#define OXP_SERVICE_TICK_H

#include <stdint.h>

#include "state.h"

/* Age the block as if `seconds` had passed without a packet to members other
 * than their slot's own. For blocks that no packet reads. */
void pass_time(struct oxp_node *node, struct service_block *block,
	       uint32_t seconds);

#endif
