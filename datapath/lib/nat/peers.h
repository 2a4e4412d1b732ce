/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_PEERS_H
#define OXP_NAT_PEERS_H

#include "state.h"

/* Whether one of the peers is an address of the node's own pools, as these are
 * now: without one nothing is handed on. With the node's lock. */
void find_own_peer(struct oxp_node *node);

#endif
