/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_TABLE_TABLES_H
#define OXP_NAT_TABLE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The flows of an address by port; NULL if it has none or cannot be mapped. The
 * caller of all functions here holds the node's lock. */
struct nat_flow *nat_table(struct oxp_node *node, uint32_t number);

/* Returns a flow by its number, or NULL. */
struct nat_flow *nat_flow_at(struct oxp_node *node, uint32_t flow);

/* Returns OXP_NAT_GROUPS groups, or NULL. */
struct nat_group *nat_groups(struct oxp_node *node);

/* Create an empty table of an address, or that of the groups. */
int make_nat_table(struct oxp_node *node, uint32_t number, char *error);
void remove_nat_table(struct oxp_node *node, uint32_t number);

/* Pin the tables of the node's pools from the folder `from` in the node's own
 * folder as well. */
int adopt_nat_tables(struct oxp_node *node, const char *from, char *error);

void forget_nat_tables(struct oxp_node *node);

static inline uint32_t nat_number(uint32_t address, uint16_t port)
{
	return address << 16 | port;
}

#endif
