/* SPDX-License-Identifier: Apache-2.0 */
/* What of the ports is kept for each group of services, so that it has it
 * whatever others take. With the node's lock. */
#ifndef OXP_NAT_TABLE_SHARES_H
#define OXP_NAT_TABLE_SHARES_H

#include "state.h"

/* Half of the ports, in equal parts for each group that has a service and for
 * one that may come; and how many flows groups have beyond theirs, which
 * packets have counted meanwhile. */
void share_nat_ports(struct oxp_node *node);

#endif
