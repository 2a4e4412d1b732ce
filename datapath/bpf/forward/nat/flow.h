/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NAT flows in their tables. A flow is identified by its number, and functions
 * look it up where they need it: the stack is small, and the verifier loses
 * bounds of values that were stored there. If two CPUs compete for a flow, the
 * one that exchanges its state wins.
 */
#ifndef OXP_NAT_FLOW_H
#define OXP_NAT_FLOW_H

#include "flow_time.h"
#include "forward/parse.h"
#include "verifier.h"

#define NO_FLOW (-1LL)

static __always_inline void *nat_table_at(__u32 number)
{
	__u32 only = 0;
	void *table = bpf_map_lookup_elem(&nat_tables, &number);

	return table ? bpf_map_lookup_elem(table, &only) : NULL;
}

static __always_inline struct nat_flow *nat_flow_at(__u32 number)
{
	__u64 offset = (number & 0xffff) * sizeof(struct nat_flow);
	__u32 address = number >> 16;
	void *table;

	if (address >= NAT_ADDRESSES)
		return NULL;
	table = nat_table_at(address);
	if (!table)
		return NULL;
	_Static_assert(sizeof(struct nat_flow) == 128, "mask");
	MASK(offset, 0x7fff80);
	return table + offset;
}

static __always_inline const struct nat_pools *nat_pools_of_node(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&nat, &only);
}

/* The pool's address that the flow uses. */
static __always_inline const __be32 *
nat_pool_address(const struct nat_pools *pools, __u32 number)
{
	__u64 address = number >> 16;

	_Static_assert(NAT_ADDRESSES == 512, "mask");
	MASK(address, 511);
	return pools->address[address];
}

static __always_inline __u32 nat_now(void)
{
	return recent_units(&config.last_asked);
}

static __always_inline __u32 nat_state_of(__u32 state)
{
	return state & NAT_STATE;
}

static __always_inline bool nat_is_active(__u32 state)
{
	return nat_state_of(state) == NAT_HALF_OPEN ||
	       nat_state_of(state) == NAT_ESTABLISHED;
}

static __always_inline bool nat_exchange(struct nat_flow *flow, __u32 was,
					 __u32 is)
{
	return __sync_val_compare_and_swap(&flow->state, was, is) == was;
}

static __always_inline bool same_words(const __be32 *left, const __be32 *right)
{
	const __u64 *a = (const __u64 *)left, *b = (const __u64 *)right;

	return a[0] == b[0] && a[1] == b[1];
}

static __always_inline bool nat_is_v4(const __be32 *address)
{
	return !address[0] && !address[1] && address[2] == bpf_htonl(0xffff);
}

static __always_inline void nat_key_of_packet(const struct packet *packet,
					      struct nat_key *key)
{
	__builtin_memcpy(key->client, packet->source, sizeof(key->client));
	__builtin_memcpy(key->vip, packet->destination, sizeof(key->vip));
	key->client_port = packet->source_port;
	key->port = packet->destination_port;
	key->protocol = packet->protocol;
	__builtin_memset(key->reserved, 0, sizeof(key->reserved));
}

static __always_inline void *nat_index_at(__u32 which)
{
	return bpf_map_lookup_elem(&nat_index, &which);
}

static __always_inline __s64 nat_look_up(__u32 which, const struct nat_key *key)
{
	void *index = nat_index_at(which);
	const __u32 *number;

	if (!index)
		return NO_FLOW;
	number = bpf_map_lookup_elem(index, key);
	return number ? *number : NO_FLOW;
}

/* The flow of a client's packet, which may be in NAT_TIME_WAIT. */
__noinline __s64 nat_find(const struct packet *packet)
{
	const struct nat_flow *flow;
	struct nat_key key;
	__s64 number;

	if (!packet)
		return NO_FLOW;
	nat_key_of_packet(packet, &key);
	number = nat_look_up(0, &key);
	if (number == NO_FLOW)
		number = nat_look_up(1, &key);
	if (number == NO_FLOW)
		return NO_FLOW;
	flow = nat_flow_at(number);
	if (!flow || nat_state_of(READ_ONCE(flow->state)) < NAT_HALF_OPEN ||
	    !same_words(flow->client, key.client) ||
	    !same_words(flow->vip, key.vip) ||
	    flow->client_port != key.client_port || flow->port != key.port ||
	    flow->protocol != key.protocol)
		return NO_FLOW;
	return number;
}

/* Whether the flow is that of a member's packet to a pool. */
static __always_inline bool nat_is_from(const struct packet *packet,
					const struct nat_flow *flow)
{
	return nat_state_of(READ_ONCE(flow->state)) >= NAT_HALF_OPEN &&
	       flow->protocol == packet->protocol &&
	       flow->member_port == packet->source_port &&
	       same_words(flow->member, packet->source);
}

#endif
