/* SPDX-License-Identifier: Apache-2.0 */
/* Free ports by address (struct nat_ports). The node must be locked. */
#ifndef OXP_NAT_TABLE_PORTS_H
#define OXP_NAT_TABLE_PORTS_H

#include <stdint.h>

#include "state.h"

#define FIRST_PORT_WORD (OXP_NAT_PORT_MIN / 64)

/* Record that the port's flow has ended. */
void note_free_port(struct oxp_node *node, uint32_t number);

/* Correct what is recorded for 64 ports of an address. taken: a bit for each
 * port whose state was not free. */
void correct_ports(struct oxp_node *node, uint32_t address, uint32_t word,
		   uint64_t taken);

#endif
