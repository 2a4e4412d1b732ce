/* SPDX-License-Identifier: Apache-2.0 */
/* Of the nodes that hand packets of NAT on to each other: which is this one. */
#ifndef OXP_NAT_TABLE_PEERS_H
#define OXP_NAT_TABLE_PEERS_H

#include <stdint.h>

#include "state.h"

/* The list that packets read. */
struct nat_peer_list *live_peers(struct oxp_node *node);

/* Place in the list of an address of the node's own pools, as these are now;
 * the list's length if there is none. With the node's lock, as below. */
uint32_t own_place(const struct oxp_node *node,
		   const struct nat_peer_list *list);

/* Notes that place in the live list: without one nothing is handed on. */
void find_own_peer(struct oxp_node *node);

#endif
