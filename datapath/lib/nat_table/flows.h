/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NAT_TABLE_FLOWS_H
#define OXP_NAT_TABLE_FLOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The coarse monotonic clock in units of 2^30 ns, as in flows. */
uint32_t nat_now(void);

static inline uint32_t nat_state_of(uint32_t state)
{
	return state & NAT_STATE;
}

static inline bool is_nat_flow(uint32_t state)
{
	return nat_state_of(state) >= NAT_HALF_OPEN;
}

/* Half open or established: counts as active. */
static inline bool is_nat_active(uint32_t state)
{
	return nat_state_of(state) == NAT_HALF_OPEN ||
	       nat_state_of(state) == NAT_ESTABLISHED;
}

/* End the flow if its state is still `state`, and free its port. Returns
 * whether it was ended. The caller holds the node's lock. */
bool end_nat_flow(struct oxp_node *node, uint32_t number, struct nat_flow *flow,
		  uint32_t state);

/* Finish ending a flow that a dead process began to end. */
void finish_nat_flow(struct oxp_node *node);

/* End all flows of an address, or of removed services (given as bits). */
void end_nat_flows_of_address(struct oxp_node *node, uint32_t address);
void end_nat_flows_of_services(struct oxp_node *node, const uint64_t *gone);

/* Whether there can be NAT services or flows. */
bool has_nat(const struct oxp_node *node);

#endif
