// SPDX-License-Identifier: Apache-2.0
/*
 * Idle time-outs of NAT flows. They are looked up whenever a flow is examined,
 * so a changed time-out applies to existing flows at once.
 */
#include "nat/timeouts.h"

#include <errno.h>
#include <netinet/in.h>

#include "error.h"
#include "nat_table/flows.h"
#include "node/lock.h"
#include "state.h"
#include "table/blocks.h"

static uint32_t or_usual(uint32_t wanted, uint32_t usual)
{
	return wanted ? wanted : usual;
}

static struct oxp_nat_timeouts timeouts_of(const struct oxp_node *node)
{
	const struct nat_timeouts *is = &node->nat->timeouts;

	return (struct oxp_nat_timeouts){
		.tcp_opening_s = or_usual(is->tcp_opening, NAT_TCP_OPENING),
		.tcp_closing_s = or_usual(is->tcp_closing, NAT_TCP_CLOSING),
		.time_wait_s = or_usual(is->time_wait, NAT_TIME_WAIT_TIME),
		.udp_opening_s = or_usual(is->udp_opening, NAT_UDP_OPENING),
	};
}

/* The time-out of the flow's service as currently configured. */
static uint32_t established_timeout(struct oxp_node *node,
				    const struct nat_flow *flow)
{
	const struct service_block *block;

	if (flow->service >= node->config->services_max)
		return flow->timeout;
	block = live_block(node, flow->service);
	if (block->service != flow->service ||
	    !(block->flags & OXP_SERVICE_NAT))
		return flow->timeout;
	return block->idle_timeout_s;
}

uint32_t nat_timeout(struct oxp_node *node, const struct nat_flow *flow,
		     uint32_t state)
{
	const struct oxp_nat_timeouts timeouts = timeouts_of(node);
	uint32_t idle;

	switch (nat_state_of(state)) {
	case NAT_TIME_WAIT:
		return timeouts.time_wait_s;
	case NAT_ESTABLISHED:
		idle = established_timeout(node, flow);
		return state & NAT_FIN && timeouts.tcp_closing_s < idle
			       ? timeouts.tcp_closing_s
			       : idle;
	default:
		return flow->protocol == IPPROTO_TCP ? timeouts.tcp_opening_s
						     : timeouts.udp_opening_s;
	}
}

static int check_timeout(const char *name, uint32_t seconds, char *error)
{
	if (!seconds ||
	    (seconds >= OXP_NAT_TIMEOUT_MIN && seconds <= OXP_NAT_TIMEOUT_MAX))
		return 0;
	return failure(error, -EINVAL,
		       "%s of NAT is %u s: wanted is %d to %d, or 0 for the "
		       "default",
		       name, seconds, OXP_NAT_TIMEOUT_MIN, OXP_NAT_TIMEOUT_MAX);
}

static int check_timeouts(const struct oxp_nat_timeouts *wanted, char *error)
{
	int status =
		check_timeout("tcp_opening_s", wanted->tcp_opening_s, error);

	if (!status)
		status = check_timeout("tcp_closing_s", wanted->tcp_closing_s,
				       error);
	if (!status)
		status = check_timeout("time_wait_s", wanted->time_wait_s,
				       error);
	if (!status)
		status = check_timeout("udp_opening_s", wanted->udp_opening_s,
				       error);
	return status;
}

int oxp_nat_timeouts_set(struct oxp_node *node,
			 const struct oxp_nat_timeouts *wanted, char *error)
{
	struct nat_timeouts *is = &node->nat->timeouts;
	int status = check_timeouts(wanted, error);

	if (!status)
		status = lock_node(node, error);
	if (status)
		return status;
	is->tcp_opening = wanted->tcp_opening_s;
	is->tcp_closing = wanted->tcp_closing_s;
	is->udp_opening = wanted->udp_opening_s;
	/* packets read this one */
	__atomic_store_n(&is->time_wait, wanted->time_wait_s, __ATOMIC_RELAXED);
	unlock_node(node);
	return 0;
}

int oxp_nat_timeouts_get(struct oxp_node *node, struct oxp_nat_timeouts *out,
			 char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	*out = timeouts_of(node);
	unlock_node(node);
	return 0;
}
