/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The two ends of a rewritten packet. */
#ifndef OXP_NAT_ENDS_H
#define OXP_NAT_ENDS_H

#include "forward/nat/flow.h"

/* How to rewrite a packet, for functions that have no arguments left. */
enum nat_what {
	NAT_TO_CLIENT = 1,
	NAT_ERROR = 2, /* is an ICMP error */
	NAT_OUT_V6 = 4,
	NAT_QUOTED = 8, /* is the packet that an error quotes */
};

struct nat_ends {
	const __be32 *source;
	const __be32 *destination;
	__be16 source_port;
	__be16 destination_port;
};

/* Sets pointers into maps. With `quoted` these are the ends of the packet that
 * an error quotes, as its sender, who gets the error, sent it. */
static __always_inline bool nat_ends_of(__u32 number, __u32 what, bool quoted,
					struct nat_ends *ends)
{
	const struct nat_pools *pools = nat_pools_of_node();
	const struct nat_flow *flow = nat_flow_at(number);
	const __be32 *pool;

	if (!pools || !flow)
		return false;
	pool = nat_pool_address(pools, number);
	if (what & NAT_TO_CLIENT && !quoted) {
		ends->source = flow->vip;
		ends->source_port = flow->port;
		ends->destination = flow->client;
		ends->destination_port = flow->client_port;
	} else if (what & NAT_TO_CLIENT) {
		ends->source = flow->client;
		ends->source_port = flow->client_port;
		ends->destination = flow->vip;
		ends->destination_port = flow->port;
	} else if (!quoted) {
		ends->source = pool;
		ends->source_port = bpf_htons(number & 0xffff);
		ends->destination = flow->member;
		ends->destination_port = flow->member_port;
	} else {
		ends->source = flow->member;
		ends->source_port = flow->member_port;
		ends->destination = pool;
		ends->destination_port = bpf_htons(number & 0xffff);
	}
	return true;
}

/* Whether the packet leaves as IPv6. */
static __always_inline bool nat_leaves_v6(const struct nat_flow *flow,
					  __u32 what)
{
	return !nat_is_v4(what & NAT_TO_CLIENT ? flow->client : flow->member);
}

/* Sum of an address's words in a pseudo-header. */
static __always_inline __u64 nat_sum(const __be32 *address, bool v6)
{
	if (!v6)
		return address[3];
	return (__u64)address[0] + address[1] + address[2] + address[3];
}

static __always_inline __u64 nat_sum_ends(const struct nat_ends *ends, bool v6)
{
	return nat_sum(ends->source, v6) + nat_sum(ends->destination, v6);
}

#endif
