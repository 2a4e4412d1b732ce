/* SPDX-License-Identifier: Apache-2.0 */
/* The ports kept for each group of services, whatever the others take. The
 * caller holds the node's lock. */
#ifndef OXP_NAT_TABLE_SHARES_H
#define OXP_NAT_TABLE_SHARES_H

#include "state.h"

/* Keep half of the ports, in equal parts for each group with a service and for
 * one more; and correct the number of flows beyond groups' parts, which packets
 * count. */
void share_nat_ports(struct oxp_node *node);

#endif
