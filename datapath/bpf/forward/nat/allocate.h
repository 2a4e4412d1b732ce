/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who gets which port. Groups of services share ports; each has a bound for all
 * its flows, and one for those that are half open, which a flood of SYNs meets
 * first: they are a ring, in which a new one takes the place of the oldest.
 */
#ifndef OXP_NAT_ALLOCATE_H
#define OXP_NAT_ALLOCATE_H

#include "age_since.h"
#include "forward/block.h"
#include "forward/count.h"
#include "forward/nat/flow.h"

/* Addresses that are asked for a port, and ports that are tried of each. */
#define NAT_TRY_ADDRESSES 4
#define NAT_TRY_PORTS 8
#define NAT_PORTS (65536 - OXP_NAT_PORT_MIN)
/* Half-open flows that are looked at when the group has all its flows. */
#define NAT_TRY_EVICT 16

static __always_inline struct nat_group *nat_group_in(void *groups, __u64 group)
{
	_Static_assert(sizeof(struct nat_group) == 32768 &&
			       OXP_NAT_GROUPS == 256,
		       "mask");
	asm volatile("%0 &= 255" : "+r"(group));
	return groups + group * sizeof(struct nat_group);
}

static __always_inline __u64 *nat_ring_in(void *groups, __u64 group,
					  __u32 position)
{
	__u64 place = position % NAT_RING;

	asm volatile("%0 &= 255" : "+r"(group));
	asm volatile("%0 &= 4095" : "+r"(place));
	if (place >= NAT_RING)
		place = 0;
	return groups + group * sizeof(struct nat_group) +
	       offsetof(struct nat_group, ring) + place * sizeof(__u64);
}

static __always_inline void nat_count_group(__u32 group, int change)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);

	if (groups)
		__sync_fetch_and_add(&nat_group_in(groups, group)->flows,
				     change);
}

static __always_inline void nat_count_active(__u32 service, int change)
{
	struct nat_service *active =
		bpf_map_lookup_elem(&nat_services, &service);

	if (active)
		__sync_fetch_and_add(&active->active, change);
}

static __always_inline void nat_forget(__u32 which, const struct nat_key *key,
				       __u32 number)
{
	void *index = nat_index_at(which);
	const __u32 *known = index ? bpf_map_lookup_elem(index, key) : NULL;

	if (known && *known == number)
		bpf_map_delete_elem(index, key);
}

/* Ends the flow if its state is still this one, or takes a free port: it is the
 * caller's then, to be filled or freed. */
__noinline int nat_claim(__u32 number, __u32 state)
{
	struct nat_flow *flow = nat_flow_at(number);
	struct nat_key key = {};

	if (!flow || !nat_exchange(flow, state, NAT_CLAIMED))
		return false;
	if (nat_state_of(state) == NAT_FREE)
		return true;
	__builtin_memcpy(key.client, flow->client, sizeof(key.client));
	__builtin_memcpy(key.vip, flow->vip, sizeof(key.vip));
	key.client_port = flow->client_port;
	key.port = flow->port;
	key.protocol = flow->protocol;
	nat_forget(0, &key, number);
	nat_forget(1, &key, number);
	nat_count_group(flow->group, -1);
	if (nat_is_active(state))
		nat_count_active(flow->service, -1);
	return true;
}

/* The flow that a place of the ring names, if it is still half open. */
static __always_inline bool nat_evict(__u64 entry)
{
	struct nat_flow *flow = nat_flow_at(entry);
	__u32 state;

	if (!entry || !flow)
		return false;
	state = READ_ONCE(flow->state);
	if (nat_state_of(state) != NAT_HALF_OPEN ||
	    READ_ONCE(flow->stamp) != entry >> 32 || !nat_claim(entry, state))
		return false;
	WRITE_ONCE(flow->state, NAT_FREE);
	return true;
}

/* The group's oldest half-open flow, if it is found soon: what is passed here
 * is not looked at again, so that the next search goes on from there. Returns
 * whether one ended. */
__noinline int nat_evict_oldest(__u32 group)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	struct nat_group *ring;
	__u32 head, tail;
	int found = false;

	if (!groups)
		return false;
	ring = nat_group_in(groups, group);
	head = READ_ONCE(ring->head);
	tail = READ_ONCE(ring->tail);
	if (head - tail > NAT_RING)
		tail = head - NAT_RING;
	for (__u32 i = 0; i < NAT_TRY_EVICT && tail != head && !found; i++)
		found = nat_evict(
			READ_ONCE(*nat_ring_in(groups, group, tail++)));
	/* another CPU may have come further: the next search does again */
	WRITE_ONCE(ring->tail, tail);
	return found;
}

enum nat_probed {
	NAT_TAKEN,
	NAT_VACANT,
	NAT_WAITING, /* in TIME_WAIT, of another end than this member's */
};

static __always_inline __u32 nat_time_wait(void)
{
	const struct nat_pools *pools = nat_pools_of_node();
	__u32 wanted = pools ? READ_ONCE(pools->timeouts.time_wait) : 0;

	return wanted ? wanted : NAT_TIME_WAIT_TIME;
}

/* Looks at a port. */
__noinline int nat_probe(__u32 number, __u32 line, __u32 index)
{
	const struct nat_flow *flow = nat_flow_at(number);
	const struct block_member *member;
	struct block_view view;
	__u32 state, age;

	if (!flow)
		return NAT_TAKEN;
	state = READ_ONCE(flow->state);
	if (nat_state_of(state) == NAT_FREE)
		return NAT_VACANT;
	if (nat_state_of(state) != NAT_TIME_WAIT)
		return NAT_TAKEN;
	age = age_since(READ_ONCE(flow->seen), nat_now(), ~0U, AGE_AHEAD);
	if (age > nat_time_wait())
		return NAT_VACANT;
	if (!find_block(line, &view))
		return NAT_TAKEN;
	member = whole_member_of(&view, index);
	if (same_words(flow->member, member->address) &&
	    flow->member_port == (member->port ? member->port : flow->port))
		return NAT_TAKEN;
	return NAT_WAITING;
}

/* Takes a port that is free or in TIME_WAIT. */
static __always_inline bool nat_take_port(__u32 number)
{
	const struct nat_flow *flow = nat_flow_at(number);
	__u32 state;

	if (!flow)
		return false;
	state = READ_ONCE(flow->state);
	return (nat_state_of(state) == NAT_FREE ||
		nat_state_of(state) == NAT_TIME_WAIT) &&
	       nat_claim(number, state);
}

static __always_inline __u32 nat_address_of(const struct nat_pools *pools,
					    __u32 v6, __u64 which)
{
	asm volatile("%0 &= 255" : "+r"(which));
	return pools->number[v6 & 1][which];
}

/*
 * A port of an address of this family, claimed, or NO_FLOW. Each one that is
 * tried is drawn anew (RFC 6056, 3.3.2): runs of busy ports are left at once,
 * and the free one behind such a run is no likelier than another. Steps of one
 * random length would be cheaper, and miss what is free in one place three
 * times as often.
 */
__noinline __s64 nat_find_port(__u32 v6, __u32 line, __u32 index)
{
	const struct nat_pools *pools = nat_pools_of_node();
	__u32 first = bpf_get_prandom_u32(), count;
	__s64 waiting = NO_FLOW;

	if (!pools)
		return NO_FLOW;
	count = READ_ONCE(pools->count[v6 & 1]);
	if (!count)
		return NO_FLOW;
	for (__u32 i = 0; i < NAT_TRY_ADDRESSES * NAT_TRY_PORTS; i++) {
		__u32 address = nat_address_of(
			pools, v6, (first + i / NAT_TRY_PORTS) % count);
		__u32 port =
			OXP_NAT_PORT_MIN + bpf_get_prandom_u32() % NAT_PORTS;
		__u32 number = address << 16 | port;
		int probed = nat_probe(number, line, index);

		if (probed == NAT_VACANT && nat_take_port(number))
			return number;
		if (probed == NAT_WAITING && waiting == NO_FLOW)
			waiting = number;
	}
	return waiting != NO_FLOW && nat_take_port(waiting) ? waiting : NO_FLOW;
}

/* The group's, for another flow. */
static __always_inline bool nat_has_share(const struct service_block *block,
					  const struct nat_pools *pools)
{
	__u32 most = block->nat_flows * NAT_FLOWS_UNIT;
	void *groups = nat_table_at(NAT_GROUPS_TABLE);

	if (!groups)
		return false;
	if (!most)
		most = pools->ports / 2;
	return READ_ONCE(nat_group_in(groups, block->nat_group)->flows) < most;
}

/* A port for a flow to this member, claimed, or NO_FLOW. */
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
	if (!nat_has_share(view.block, pools)) {
		if (!nat_evict_oldest(group))
			return NO_FLOW;
		count(ctx, OXP_NAT_EVICTED);
	}
	number = nat_find_port(v6, line, index);
	if (number == NO_FLOW && nat_evict_oldest(group)) {
		count(ctx, OXP_NAT_EVICTED);
		number = nat_find_port(v6, line, index);
	}
	return number;
}

/* A place among the service's flows, of which there may be a limit. */
__noinline int nat_take_place(__u32 service, __u32 limited)
{
	struct nat_service *active;
	__u32 before, limit;

	active = bpf_map_lookup_elem(&nat_services, &service);
	if (!active)
		return false;
	before = __sync_fetch_and_add(&active->active, 1);
	limit = READ_ONCE(active->limit);
	if (!limited || !limit || before < limit)
		return true;
	__sync_fetch_and_add(&active->active, -1);
	return false;
}

/* The same before a flow begins; the limit is of those that a packet opens. */
__noinline int nat_reserve(__u32 line, __u32 opens)
{
	struct block_view view;

	return find_block(line, &view) &&
	       nat_take_place(view.block->service, opens);
}

/* The flow did not begin. */
static __always_inline void nat_release(__u32 line)
{
	struct block_view view;

	if (find_block(line, &view))
		nat_count_active(view.block->service, -1);
}

/* Of a flow that is claimed and filled, and whose place is reserved: from here
 * on it is one, half open. */
__noinline int nat_open(struct xdp_md *ctx, __u32 number)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	struct nat_flow *flow = nat_flow_at(number);
	__u32 stamp = bpf_get_prandom_u32(), position, group;
	__u64 before;

	if (!groups || !flow)
		return false;
	group = flow->group;
	flow->stamp = stamp;
	WRITE_ONCE(flow->seen, nat_now());
	position = __sync_fetch_and_add(&nat_group_in(groups, group)->head, 1);
	before = __sync_lock_test_and_set(nat_ring_in(groups, group, position),
					  (__u64)stamp << 32 | number);
	/* an exchange, after which all that was written is seen */
	__sync_lock_test_and_set(&flow->state,
				 NAT_HALF_OPEN | stamp << NAT_STAMP_SHIFT);
	if (nat_evict(before))
		count(ctx, OXP_NAT_EVICTED);
	return true;
}

/* The flow of a client's packet to the member, from a claimed port. */
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
	if (!known || bpf_map_update_elem(known, &key, &number, BPF_ANY)) {
		WRITE_ONCE(flow->state, NAT_FREE);
		return false;
	}
	nat_count_group(flow->group, 1);
	return true;
}

#endif
