// SPDX-License-Identifier: Apache-2.0
/* Reading NAT flows. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "address.h"
#include "age_since.h"
#include "error.h"
#include "nat/timeouts.h"
#include "nat_table/flows.h"
#include "nat_table/index.h"
#include "nat_table/tables.h"
#include "node/lock.h"
#include "state.h"

struct listing {
	struct oxp_node *node;
	const struct oxp_nat_filter *filter; /* NULL: any */
	struct oxp_nat_flow *out;
	uint32_t capacity;
	uint32_t count;
	uint32_t now;
};

static bool has_address(const struct oxp_address *wanted, const void *is)
{
	static const struct oxp_address any;

	return !memcmp(wanted, &any, sizeof(any)) ||
	       !memcmp(wanted, is, sizeof(*wanted));
}

static bool has_number(uint16_t wanted, uint16_t is)
{
	return !wanted || wanted == is;
}

static bool fits(const struct oxp_nat_filter *filter,
		 const struct oxp_nat_flow *flow)
{
	return has_address(&filter->service.vip, &flow->service.vip) &&
	       has_number(filter->service.port, flow->service.port) &&
	       has_number(filter->service.protocol, flow->service.protocol) &&
	       has_address(&filter->client, &flow->client) &&
	       has_address(&filter->pool, &flow->pool) &&
	       has_address(&filter->member, &flow->member) &&
	       has_number(filter->client_port, flow->client_port) &&
	       has_number(filter->pool_port, flow->pool_port) &&
	       has_number(filter->member_port, flow->member_port) &&
	       has_number(filter->state, flow->state);
}

/* Returns false if there is no flow, or if it changed while it was read. */
static bool describe(const struct listing *listing, uint32_t number,
		     struct oxp_nat_flow *out)
{
	const struct nat_pools *pools = listing->node->nat;
	struct nat_flow *flow = nat_flow_at(listing->node, number);
	uint32_t state, timeout, age;

	if (!flow)
		return false;
	state = __atomic_load_n(&flow->state, __ATOMIC_ACQUIRE);
	if (!is_nat_flow(state))
		return false;
	age = age_since(flow->seen, listing->now, ~0U, AGE_AHEAD);
	timeout = nat_timeout(listing->node, flow, state);
	*out = (struct oxp_nat_flow){
		.service = {.port = ntohs(flow->port),
			    .protocol = flow->protocol},
		.client_port = ntohs(flow->client_port),
		.pool_port = number & 0xffff,
		.member_port = ntohs(flow->member_port),
		.state = nat_state_of(state),
		.idle_s = age,
		.expires_s = timeout > age ? timeout - age : 0,
	};
	memcpy(&out->service.vip, flow->vip, sizeof(flow->vip));
	memcpy(&out->client, flow->client, sizeof(flow->client));
	memcpy(&out->pool, pools->address[number >> 16],
	       sizeof(pools->address[0]));
	memcpy(&out->member, flow->member, sizeof(flow->member));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&flow->state, __ATOMIC_RELAXED) == state;
}

static void list_one(struct listing *listing, uint32_t number)
{
	struct oxp_nat_flow flow;

	if (!describe(listing, number, &flow) ||
	    (listing->filter && !fits(listing->filter, &flow)))
		return;
	if (listing->count < listing->capacity)
		listing->out[listing->count] = flow;
	listing->count++;
}

static void list_address(struct listing *listing, uint32_t address)
{
	if (!nat_table(listing->node, address))
		return;
	for (uint32_t port = OXP_NAT_PORT_MIN; port < 65536; port++)
		list_one(listing, nat_number(address, port));
}

static bool names_client(const struct oxp_nat_filter *filter)
{
	return filter && !is_zero(&filter->client) && filter->client_port &&
	       !is_zero(&filter->service.vip) && filter->service.port &&
	       filter->service.protocol;
}

static void list_client(struct listing *listing)
{
	const struct oxp_nat_filter *filter = listing->filter;
	struct nat_key key = {
		.client_port = htons(filter->client_port),
		.port = htons(filter->service.port),
		.protocol = filter->service.protocol,
	};
	int64_t number;

	memcpy(key.client, &filter->client, sizeof(key.client));
	memcpy(key.vip, &filter->service.vip, sizeof(key.vip));
	number = find_nat_flow(listing->node, &key);
	if (number >= 0)
		list_one(listing, number);
}

static void list_addresses(struct listing *listing)
{
	const struct oxp_nat_filter *filter = listing->filter;
	const struct nat_pools *pools = listing->node->nat;

	for (uint32_t i = 0; i < NAT_ADDRESSES; i++) {
		if (!pools->length[i] ||
		    (filter && !has_address(&filter->pool, pools->address[i])))
			continue;
		if (filter && filter->pool_port)
			list_one(listing, nat_number(i, filter->pool_port));
		else
			list_address(listing, i);
	}
}

int oxp_nat_flows_list(struct oxp_node *node,
		       const struct oxp_nat_filter *filter,
		       struct oxp_nat_flow *out, uint32_t capacity, char *error)
{
	struct listing listing = {.node = node,
				  .filter = filter,
				  .out = out,
				  .capacity = capacity,
				  .now = nat_now()};
	int status = lock_node(node, error);

	if (status)
		return status;
	if (names_client(filter))
		list_client(&listing);
	else
		list_addresses(&listing);
	unlock_node(node);
	return listing.count;
}

static void count_flows(struct oxp_node *node, uint32_t address,
			struct oxp_nat_usage *out)
{
	const struct nat_flow *table = nat_table(node, address);

	for (uint32_t port = OXP_NAT_PORT_MIN; table && port < 65536; port++) {
		uint32_t state = table[port].state;

		out->half_open += nat_state_of(state) == NAT_HALF_OPEN;
		out->established += nat_state_of(state) == NAT_ESTABLISHED;
		out->time_wait += nat_state_of(state) == NAT_TIME_WAIT;
	}
}

int oxp_nat_usage_get(struct oxp_node *node, struct oxp_nat_usage *out,
		      char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	*out = (struct oxp_nat_usage){
		.addresses_v4 = node->nat->count[0],
		.addresses_v6 = node->nat->count[1],
		.ports = node->nat->ports,
	};
	for (uint32_t i = 0; i < NAT_ADDRESSES; i++)
		count_flows(node, i, out);
	unlock_node(node);
	return 0;
}
