/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_AGE_H
#define OXP_NAT_AGE_H

#include "state.h"

/* Ends flows whose time is over: those of some addresses, others at the next
 * call. With the node's lock. */
void age_nat_flows(struct oxp_node *node);

#endif
