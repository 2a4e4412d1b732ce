/* SPDX-License-Identifier: Apache-2.0 */
/* This node's place among the nodes that pass NAT packets on to each other. */
#ifndef OXP_NAT_TABLE_PEERS_H
#define OXP_NAT_TABLE_PEERS_H

#include <stdint.h>

#include "state.h"

/* Returns the list that packets read. */
struct nat_peer_list *live_peers(struct oxp_node *node);

/* Returns the place in the list of one of the node's current pool addresses, or
 * the list's length without one. The caller holds the node's lock, as below. */
uint32_t own_place(const struct oxp_node *node,
		   const struct nat_peer_list *list);

/* Set that place in the live list: without one nothing is passed on. */
void find_own_peer(struct oxp_node *node);

#endif
