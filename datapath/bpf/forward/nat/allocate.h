/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The begin of a flow: it takes a port, if its group may have one more, and a
 * place among the flows of its service and the half-open flows of its group.
 */
#ifndef OXP_NAT_ALLOCATE_H
#define OXP_NAT_ALLOCATE_H

#include "forward/count.h"
#include "forward/nat/half_open.h"
#include "forward/nat/search.h"

/* Claims a port for a flow to this member, or returns NO_FLOW. */
__noinline __s64 nat_allocate(struct xdp_md *ctx, __u32 line, __u32 index)
{
	const struct nat_pools *pools = nat_pools_of_node();
	struct block_view view;
	__u32 v6, group;
	__s64 number;

	if (!pools || !find_block(line, &view))
		return NO_FLOW;
	group = view.block->nat_group;
	v6 = !nat_is_v4(whole_member_of(&view, index)->address);
	if (!nat_has_share(view.block, pools, v6)) {
		if (!nat_evict_oldest(group))
			return NO_FLOW;
		count(ctx, OXP_NAT_EVICTED);
		/* the evicted flow may have had a port of the other family */
		if (!nat_has_share(view.block, pools, v6))
			return NO_FLOW;
	}
	number = nat_find_port(v6, line, index);
	if (number == NO_FLOW && nat_evict_oldest(group)) {
		count(ctx, OXP_NAT_EVICTED);
		number = nat_find_port(v6, line, index);
	}
	return number;
}

/* Takes a place among the service's flows, whose number may be limited. */
__noinline int nat_take_place(__u32 service, __u32 limited)
{
	struct nat_service *active;
	__u32 before, limit;

	active = bpf_map_lookup_elem(&nat_services, &service);
	if (!active)
		return false;
	before = __sync_fetch_and_add(&active->active, 1) & ~NAT_TAKEN_OUT;
	limit = READ_ONCE(active->limit);
	if (!limited || !limit || before < limit)
		return true;
	__sync_fetch_and_add(&active->active, -1);
	return false;
}

/* The same before a flow begins; the limit is for those that a packet opens. */
__noinline int nat_reserve(__u32 line, __u32 opens)
{
	struct block_view view;

	return find_block(line, &view) &&
	       nat_take_place(view.block->service, opens);
}

/* To be called if the flow did not begin. */
static __always_inline void nat_release(__u32 line)
{
	struct block_view view;

	if (find_block(line, &view))
		nat_count_active(view.block->service, -1);
}

/* Opens a flow that is claimed and filled, and whose place is reserved: it is
 * half open from here on. */
__noinline int nat_open(struct xdp_md *ctx, __u32 number)
{
	struct nat_flow *flow = nat_flow_at(number);
	__u32 stamp = bpf_get_prandom_u32(), group;

	if (!flow)
		return false;
	group = flow->group;
	flow->stamp = stamp;
	WRITE_ONCE(flow->seen, nat_now());
	/* an atomic exchange, after which all earlier writes are visible */
	__sync_lock_test_and_set(&flow->state,
				 NAT_HALF_OPEN | stamp << NAT_STAMP_SHIFT);
	if (nat_evict(nat_enter_ring(group, (__u64)stamp << 32 | number)))
		count(ctx, OXP_NAT_EVICTED);
	return true;
}

/* Fills in the flow of a client's packet to the member, in a port that is
 * claimed and stays so. */
__noinline int nat_fill(const struct packet *packet, __u32 number, __u32 line,
			__u32 index, __u32 entropy)
{
	struct nat_flow *flow = nat_flow_at(number);
	const struct block_member *member;
	struct block_view view;
	struct nat_key key;
	void *known;

	if (!packet || !flow || !find_block(line, &view))
		return false;
	member = whole_member_of(&view, index);
	nat_key_of_packet(packet, &key);
	__builtin_memcpy(flow->client, key.client, sizeof(flow->client));
	__builtin_memcpy(flow->vip, key.vip, sizeof(flow->vip));
	__builtin_memcpy(flow->member, member->address, sizeof(flow->member));
	flow->client_port = key.client_port;
	flow->port = key.port;
	flow->member_port = member->port ? member->port : key.port;
	flow->protocol = key.protocol;
	flow->service = view.block->service;
	flow->member_index = index;
	flow->entropy = entropy;
	flow->group = view.block->nat_group;
	flow->timeout = view.block->idle_timeout_s;
	flow->sequence = 0;
	known = nat_index_at(0);
	if (!known || bpf_map_update_elem(known, &key, &number, BPF_ANY))
		return false;
	nat_count_flow(flow, number, 1);
	return true;
}

#endif
