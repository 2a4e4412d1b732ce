/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_TIMEOUTS_H
#define OXP_NAT_TIMEOUTS_H

#include <stdint.h>

#include "state.h"

/* Idle time after which the flow ends, in units of 2^30 ns. */
uint32_t nat_timeout(struct oxp_node *node, const struct nat_flow *flow,
		     uint32_t state);

#endif
