/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_TABLE_TABLES_H
#define OXP_NAT_TABLE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The flows of an address by their ports, NULL if it has none or cannot be
 * mapped. With the node's lock, as all here. */
struct nat_flow *nat_table(struct oxp_node *node, uint32_t number);

/* A flow by its number, NULL likewise. */
struct nat_flow *nat_flow_at(struct oxp_node *node, uint32_t flow);

/* OXP_NAT_GROUPS of them, NULL likewise. */
struct nat_group *nat_groups(struct oxp_node *node);

/* The table of an address, or that of the groups, with nothing in it. */
int make_nat_table(struct oxp_node *node, uint32_t number, char *error);
void remove_nat_table(struct oxp_node *node, uint32_t number);

/* Pins the tables of the node's pools, which are in the folder `from`, in its
 * own folder as well. */
int adopt_nat_tables(struct oxp_node *node, const char *from, char *error);

void forget_nat_tables(struct oxp_node *node);

static inline uint32_t nat_number(uint32_t address, uint16_t port)
{
	return address << 16 | port;
}

#endif
