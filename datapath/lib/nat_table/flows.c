// SPDX-License-Identifier: Apache-2.0
/*
 * Ending flows. Setting a flow's state to NAT_CLAIMED makes a packet or the
 * library its only owner, which removes it from the index and all counts and
 * frees it.
 */
#include "nat_table/flows.h"

#include <time.h>

#include "nat_table/index.h"
#include "nat_table/ports.h"
#include "nat_table/shares.h"
#include "nat_table/tables.h"
#include "state.h"

uint32_t nat_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (now.tv_sec * 1000000000ULL + now.tv_nsec) >> 30;
}

bool has_nat(const struct oxp_node *node)
{
	return node->config->nat_addresses != 0;
}

/* Remove the flow from a count exactly once, wherever a process dies:
 * NAT_TAKEN_OUT in the count means done, until the flow's flag is cleared. */
static void take_out(struct nat_flow *flow, uint32_t flag, uint32_t *count)
{
	uint32_t now = __atomic_load_n(count, __ATOMIC_RELAXED);

	if (flow->state & flag) {
		if (!now)
			__atomic_or_fetch(count, NAT_TAKEN_OUT,
					  __ATOMIC_SEQ_CST);
		else if (!(now & NAT_TAKEN_OUT))
			__atomic_add_fetch(count, NAT_TAKEN_OUT - 1,
					   __ATOMIC_SEQ_CST);
		__atomic_and_fetch(&flow->state, ~flag, __ATOMIC_SEQ_CST);
	}
	__atomic_and_fetch(count, ~NAT_TAKEN_OUT, __ATOMIC_SEQ_CST);
}

void finish_nat_flow(struct oxp_node *node)
{
	uint32_t number = node->nat->ending;
	struct nat_flow *flow = number ? nat_flow_at(node, number) : NULL;
	struct nat_group *groups = nat_groups(node);
	struct nat_key key;

	if (!flow || nat_state_of(flow->state) != NAT_CLAIMED ||
	    !(flow->state & NAT_ENDED)) {
		node->nat->ending = 0;
		return;
	}
	key = nat_key_of(flow);
	remove_nat_flow(node, &key, number);
	if (groups && flow->group < OXP_NAT_GROUPS) {
		take_out(flow, NAT_IN_FLOWS, &groups[flow->group].flows);
		take_out(flow, NAT_IN_FLOWS_V6, &groups[flow->group].flows_v6);
	}
	if (flow->service < node->config->services_max)
		take_out(flow, NAT_IN_ACTIVE,
			 &node->nat_services[flow->service].active);
	__atomic_store_n(&flow->state, NAT_FREE, __ATOMIC_RELEASE);
	note_free_port(node, number);
	__atomic_store_n(&node->nat->ending, 0, __ATOMIC_RELEASE);
}

bool end_nat_flow(struct oxp_node *node, uint32_t number, struct nat_flow *flow,
		  uint32_t state)
{
	uint32_t claimed = NAT_CLAIMED | NAT_ENDED | NAT_IN_FLOWS;
	bool ours;

	if (flow->in_v6)
		claimed |= NAT_IN_FLOWS_V6;
	if (is_nat_active(state))
		claimed |= NAT_IN_ACTIVE;
	/* left by a dead process */
	if (node->nat->ending)
		finish_nat_flow(node);
	__atomic_store_n(&node->nat->ending, number, __ATOMIC_SEQ_CST);
	ours = __atomic_compare_exchange_n(&flow->state, &state, claimed, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	finish_nat_flow(node);
	return ours;
}

static bool is_gone(const uint64_t *gone, const struct nat_flow *flow)
{
	return gone[flow->service / 64] >> flow->service % 64 & 1;
}

static void end_all(struct oxp_node *node, uint32_t address,
		    const uint64_t *gone)
{
	struct nat_flow *table = nat_table(node, address);

	for (uint32_t port = OXP_NAT_PORT_MIN; table && port < 65536; port++) {
		struct nat_flow *flow = &table[port];
		uint32_t state =
			__atomic_load_n(&flow->state, __ATOMIC_ACQUIRE);

		if (is_nat_flow(state) &&
		    (!gone || (flow->service < node->config->services_max &&
			       is_gone(gone, flow))))
			end_nat_flow(node, nat_number(address, port), flow,
				     state);
	}
}

void end_nat_flows_of_address(struct oxp_node *node, uint32_t address)
{
	end_all(node, address, NULL);
}

void end_nat_flows_of_services(struct oxp_node *node, const uint64_t *gone)
{
	for (uint32_t i = 0; has_nat(node) && i < NAT_ADDRESSES; i++)
		end_all(node, i, gone);
	share_nat_ports(node);
}
