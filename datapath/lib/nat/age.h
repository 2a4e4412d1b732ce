/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_AGE_H
#define OXP_NAT_AGE_H

#include "state.h"

/* End expired flows of some addresses; the next call continues with others. The
 * caller holds the node's lock. */
void age_nat_flows(struct oxp_node *node);

#endif
