/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_TABLE_INDEX_H
#define OXP_NAT_TABLE_INDEX_H

#include <stdint.h>

#include "state.h"

/* Returns the number of a client's flow or -ENOENT. The caller of all functions
 * here holds the node's lock. */
int64_t find_nat_flow(struct oxp_node *node, const struct nat_key *key);

int enter_nat_flow(struct oxp_node *node, const struct nat_key *key,
		   uint32_t flow);

/* Removes the key only if it leads to this flow. */
void remove_nat_flow(struct oxp_node *node, const struct nat_key *key,
		     uint32_t flow);

/* Make room for `flows` flows, unless there is enough; existing ones stay. 0:
 * the index is no longer needed. */
int size_nat_index(struct oxp_node *node, uint32_t flows, char *error);

/* Pin the index from the folder `from` in the node's own folder as well. */
int adopt_nat_index(struct oxp_node *node, const char *from, char *error);

void close_nat_indices(struct oxp_node *node);

struct nat_key nat_key_of(const struct nat_flow *flow);

#endif
