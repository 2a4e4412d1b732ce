/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_TABLE_FLOWS_H
#define OXP_NAT_TABLE_FLOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The coarse monotonic clock in units of 2^30 ns, as flows have it. */
uint32_t nat_now(void);

static inline uint32_t nat_state_of(uint32_t state)
{
	return state & NAT_STATE;
}

static inline bool is_nat_flow(uint32_t state)
{
	return nat_state_of(state) >= NAT_HALF_OPEN;
}

/* Half open or established: counted as active. */
static inline bool is_nat_active(uint32_t state)
{
	return nat_state_of(state) == NAT_HALF_OPEN ||
	       nat_state_of(state) == NAT_ESTABLISHED;
}

/* Ends the flow, if its state is still this one, and frees its port. Returns
 * whether it did. With the node's lock. */
bool end_nat_flow(struct oxp_node *node, uint32_t number, struct nat_flow *flow,
		  uint32_t state);

/* Goes on with a flow whose end a process began that died. */
void finish_nat_flow(struct oxp_node *node);

/* All flows of an address, or of services that are gone (a bit each). */
void end_nat_flows_of_address(struct oxp_node *node, uint32_t address);
void end_nat_flows_of_services(struct oxp_node *node, const uint64_t *gone);

/* Whether any service or flow can be there. */
bool has_nat(const struct oxp_node *node);

#endif
