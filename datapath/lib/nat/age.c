// SPDX-License-Identifier: Apache-2.0
/*
 * Ageing of flows, one bounded step per call. A step visits one in NAT_STEPS
 * addresses, but at least NAT_STEP_LEAST, which bounds how late a flow ends.
 * Until then packets renew even expired flows, since no other flow has their
 * port. The step also corrects derived state that lags behind the flows.
 */
#include "nat/age.h"

#include <stdbool.h>

#include "age_since.h"
#include "nat/timeouts.h"
#include "nat_table/flows.h"
#include "nat_table/ports.h"
#include "nat_table/shares.h"
#include "nat_table/tables.h"
#include "state.h"

#define NAT_STEPS 16
#define NAT_STEP_LEAST 4

/* Returns whether the port has a flow or is being given one. */
static bool age_port(struct oxp_node *node, uint32_t number,
		     struct nat_flow *flow, uint32_t now)
{
	uint32_t state = __atomic_load_n(&flow->state, __ATOMIC_ACQUIRE);
	uint32_t age = age_since(flow->seen, now, ~0U, AGE_AHEAD);

	/* cheap check first: no time-out is shorter than OXP_NAT_TIMEOUT_MIN */
	if (is_nat_flow(state) && age > OXP_NAT_TIMEOUT_MIN &&
	    age > nat_timeout(node, flow, state))
		return !end_nat_flow(node, number, flow, state);
	return nat_state_of(state) != NAT_FREE;
}

static void age_address(struct oxp_node *node, uint32_t address, uint32_t now)
{
	struct nat_flow *table = nat_table(node, address);

	for (uint32_t word = FIRST_PORT_WORD; table && word < NAT_PORT_WORDS;
	     word++) {
		uint64_t taken = 0;

		for (uint32_t i = 0; i < 64; i++) {
			uint32_t port = word * 64 + i;

			if (age_port(node, nat_number(address, port),
				     &table[port], now))
				taken |= 1ULL << i;
		}
		correct_ports(node, address, word, taken);
	}
}

void age_nat_flows(struct oxp_node *node)
{
	uint32_t wanted = node->config->nat_addresses / NAT_STEPS;
	uint32_t now = nat_now(), address = node->nat_state.cursor;

	if (wanted < NAT_STEP_LEAST)
		wanted = NAT_STEP_LEAST;
	finish_nat_flow(node);
	for (uint32_t i = 0; has_nat(node) && wanted && i < NAT_ADDRESSES;
	     i++) {
		address = (address + 1) % NAT_ADDRESSES;
		if (!node->nat->length[address])
			continue;
		age_address(node, address, now);
		wanted--;
	}
	node->nat_state.cursor = address;
	share_nat_ports(node);
}
