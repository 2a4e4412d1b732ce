// SPDX-License-Identifier: Apache-2.0
/*
 * Ageing of flows, one bounded step a call. Each looks at one in NAT_STEPS
 * addresses, at least at NAT_STEP_LEAST, so that a flow ends so many seconds
 * late at most; packets of flows whose time is over renew them, as their port
 * is nobody else's yet.
 */
#include "nat/age.h"

#include "age_since.h"
#include "nat/timeouts.h"
#include "nat_table/flows.h"
#include "nat_table/tables.h"
#include "state.h"

#define NAT_STEPS 16
#define NAT_STEP_LEAST 4

static void age_address(struct oxp_node *node, uint32_t address, uint32_t now)
{
	struct nat_flow *table = nat_table(node, address);

	for (uint32_t port = OXP_NAT_PORT_MIN; table && port < 65536; port++) {
		struct nat_flow *flow = &table[port];
		uint32_t state =
			__atomic_load_n(&flow->state, __ATOMIC_ACQUIRE);
		uint32_t age = age_since(flow->seen, now, ~0U, AGE_AHEAD);

		/* most are younger than any time-out: asking takes longer */
		if (is_nat_flow(state) && age > OXP_NAT_TIMEOUT_MIN &&
		    age > nat_timeout(node, flow, state))
			end_nat_flow(node, nat_number(address, port), flow,
				     state);
	}
}

void age_nat_flows(struct oxp_node *node)
{
	uint32_t wanted = node->config->nat_addresses / NAT_STEPS;
	uint32_t now = nat_now(), address = node->nat_state.cursor;

	if (wanted < NAT_STEP_LEAST)
		wanted = NAT_STEP_LEAST;
	for (uint32_t i = 0; has_nat(node) && wanted && i < NAT_ADDRESSES;
	     i++) {
		address = (address + 1) % NAT_ADDRESSES;
		if (!node->nat->length[address])
			continue;
		age_address(node, address, now);
		wanted--;
	}
	node->nat_state.cursor = address;
}
