/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_TABLE_INDEX_H
#define OXP_NAT_TABLE_INDEX_H

#include <stdint.h>

#include "state.h"

/* From a client's flow to its number. -ENOENT. With the node's lock, as all
 * here. */
int64_t find_nat_flow(struct oxp_node *node, const struct nat_key *key);

int enter_nat_flow(struct oxp_node *node, const struct nat_key *key,
		   uint32_t flow);

/* Only if the key leads to this flow. */
void remove_nat_flow(struct oxp_node *node, const struct nat_key *key,
		     uint32_t flow);

/* Room for so many flows, which there are most of the time already; those that
 * are there stay. 0: no index is needed any more. */
int size_nat_index(struct oxp_node *node, uint32_t flows, char *error);

/* Pins the index that is in the folder `from` in the node's own as well. */
int adopt_nat_index(struct oxp_node *node, const char *from, char *error);

void close_nat_indices(struct oxp_node *node);

struct nat_key nat_key_of(const struct nat_flow *flow);

#endif
