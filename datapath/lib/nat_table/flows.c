// SPDX-License-Identifier: Apache-2.0
/*
 * Ending flows. Whoever makes a flow's state NAT_CLAIMED has it alone, packets
 * or the library: it takes it out of the index and of all counts, and frees it.
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

bool end_nat_flow(struct oxp_node *node, uint32_t number, struct nat_flow *flow,
		  uint32_t state)
{
	struct nat_group *groups = nat_groups(node);
	struct nat_key key;

	if (!__atomic_compare_exchange_n(&flow->state, &state, NAT_CLAIMED,
					 false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	key = nat_key_of(flow);
	remove_nat_flow(node, &key, number);
	if (groups && flow->group < OXP_NAT_GROUPS) {
		__atomic_sub_fetch(&groups[flow->group].flows, 1,
				   __ATOMIC_RELAXED);
		__atomic_sub_fetch(&groups[flow->group].flows_v6, flow->in_v6,
				   __ATOMIC_RELAXED);
	}
	if (is_nat_active(state) && flow->service < node->config->services_max)
		__atomic_sub_fetch(&node->nat_services[flow->service].active, 1,
				   __ATOMIC_RELAXED);
	__atomic_store_n(&flow->state, NAT_FREE, __ATOMIC_RELEASE);
	note_free_port(node, number);
	return true;
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
