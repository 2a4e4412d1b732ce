/* SPDX-License-Identifier: Apache-2.0 */
/* Where addresses have free ports (struct nat_ports). With the node's lock. */
#ifndef OXP_NAT_TABLE_PORTS_H
#define OXP_NAT_TABLE_PORTS_H

#include <stdint.h>

#include "state.h"

#define FIRST_PORT_WORD (OXP_NAT_PORT_MIN / 64)

/* The port's flow has ended. */
void note_free_port(struct oxp_node *node, uint32_t number);

/* Makes all that is said of 64 ports of an address what their states have said,
 * a bit for each port that was taken. */
void correct_ports(struct oxp_node *node, uint32_t address, uint32_t word,
		   uint64_t taken);

#endif
