/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which port a flow gets. While many are free one is drawn at random (RFC 6056,
 * 3.3.2), so that nobody can predict it. When few are left, bits of addresses,
 * of words of an address, and of a word's ports find one, each search starting
 * at a random position. Ports in TIME_WAIT come last.
 */
#ifndef OXP_NAT_SEARCH_H
#define OXP_NAT_SEARCH_H

#include "age_since.h"
#include "forward/nat/claim.h"
#include "verifier.h"

/* Ports drawn before the search. */
#define NAT_TRY_DRAWN 4
/* Ports tried by their bits: other CPUs may be faster, or the bits late. */
#define NAT_TRY_FREE 32
/* Addresses tried for a port in TIME_WAIT, and ports of each. */
#define NAT_TRY_ADDRESSES 4
#define NAT_TRY_PORTS 8
#define NAT_PORTS (65536 - OXP_NAT_PORT_MIN)

enum nat_probed {
	NAT_TAKEN,
	NAT_VACANT,
	NAT_WAITING, /* in TIME_WAIT, with another end than this member */
};

static __always_inline __u32 nat_time_wait(void)
{
	const struct nat_pools *pools = nat_pools_of_node();
	__u32 wanted = pools ? READ_ONCE(pools->timeouts.time_wait) : 0;

	return wanted ? wanted : NAT_TIME_WAIT_TIME;
}

/* Returns an enum nat_probed for a port. */
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
	MASK(which, 255);
	return pools->number[v6 & 1][which];
}

static __always_inline __u32 nat_count_of(const struct nat_pools *pools,
					  __u32 v6)
{
	__u32 count = READ_ONCE(pools->count[v6 & 1]);

	return count <= OXP_NAT_ADDRESSES_MAX ? count : OXP_NAT_ADDRESSES_MAX;
}

/* A bit that is set, of which there must be one: the next from `first` on. */
static __always_inline __u32 nat_some_bit(__u64 bits, __u32 first)
{
	first &= 63;
	if (first)
		bits = bits >> first | bits << (64 - first);
	return (__builtin_popcountll((bits & -bits) - 1) + first) & 63;
}

/* Takes a port that is free by its bit, and sets the bit in any case. */
static __always_inline bool nat_take_free(__u32 number)
{
	struct nat_flow *flow = nat_flow_at(number);
	bool taken = flow && nat_exchange(flow, NAT_FREE, NAT_CLAIMED);

	nat_set_taken(number);
	return taken;
}

__noinline __s64 nat_draw_port(__u32 v6)
{
	const struct nat_pools *pools = nat_pools_of_node();
	__u32 count, address;
	void *ports;

	if (!pools)
		return NO_FLOW;
	count = nat_count_of(pools, v6);
	if (!count)
		return NO_FLOW;
	address = nat_address_of(pools, v6, bpf_get_prandom_u32() % count);
	ports = nat_table_at(address);
	if (!ports)
		return NO_FLOW;
	for (__u32 i = 0; i < NAT_TRY_DRAWN; i++) {
		__u32 port =
			OXP_NAT_PORT_MIN + bpf_get_prandom_u32() % NAT_PORTS;
		__u64 taken = READ_ONCE(*nat_taken_in(ports, port / 64));

		if (!(taken >> (port & 63) & 1) &&
		    nat_take_free(address << 16 | port))
			return address << 16 | port;
	}
	return NO_FLOW;
}

/* An address with a free port, or -1. */
__noinline int nat_find_address(__u32 v6, __u32 random)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE);
	const struct nat_pools *pools = nat_pools_of_node();
	__u32 count, first;

	if (!pools || !groups)
		return -1;
	count = nat_count_of(pools, v6);
	if (!count)
		return -1;
	/* avoids overflow */
	first = random >> 1;
	for (__u32 i = 0; i < OXP_NAT_ADDRESSES_MAX && i < count; i++) {
		/* recomputed: the verifier would follow all values of a
		 * variable that is kept between rounds */
		__u32 address = nat_address_of(pools, v6, (first + i) % count);
		__u64 full = READ_ONCE(*nat_full_addresses(groups, address));

		if (!(full >> (address & 63) & 1))
			return address;
	}
	return -1;
}

/* A word of the address's ports with a free one, or -1. */
__noinline int nat_find_word(__u32 address, __u32 random)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE), *ports;
	__u32 which = random;

	if (!groups || address >= NAT_ADDRESSES)
		return -1;
	ports = nat_table_at(address);
	for (__u32 i = 0; ports && i < NAT_PORT_WORDS / 64; i++, which++) {
		__u64 free = ~READ_ONCE(*nat_full_in(ports, which));

		if (!(which % 16))
			free &= ~NAT_NEVER_FREE;
		if (free)
			return which % 16 * 64 +
			       nat_some_bit(free, random >> 8);
	}
	__sync_fetch_and_or(nat_full_addresses(groups, address),
			    1ULL << (address & 63));
	return -1;
}

/* Takes a port of the word; `first` is any port of it. */
__noinline __s64 nat_take_in_word(__u32 first, __u32 random)
{
	__u32 word = (first & 0xffff) / 64, number;
	void *ports = nat_table_at(first >> 16);
	__u64 free;

	if (!ports)
		return NO_FLOW;
	free = ~READ_ONCE(*nat_taken_in(ports, word));
	if (!free) {
		nat_set_full(ports, word);
		return NO_FLOW;
	}
	number = (first & ~63U) + nat_some_bit(free, random);
	return nat_take_free(number) ? number : NO_FLOW;
}

__noinline __s64 nat_find_free(__u32 v6)
{
	for (__u32 i = 0; i < NAT_TRY_FREE; i++) {
		__u32 random = bpf_get_prandom_u32();
		int address = nat_find_address(v6, random), word;
		__s64 number;

		if (address < 0)
			return NO_FLOW;
		random = bpf_get_prandom_u32();
		word = nat_find_word(address, random);
		if (word < 0)
			continue;
		number = nat_take_in_word((__u32)address << 16 | word * 64,
					  random >> 16);
		if (number != NO_FLOW)
			return number;
	}
	return NO_FLOW;
}

/* Takes a port whose TIME_WAIT is over, or whose end was not this member. */
__noinline __s64 nat_find_waiting(__u32 v6, __u32 line, __u32 index)
{
	const struct nat_pools *pools = nat_pools_of_node();
	__u32 first = bpf_get_prandom_u32(), count;
	__s64 waiting = NO_FLOW;

	if (!pools)
		return NO_FLOW;
	count = nat_count_of(pools, v6);
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

/* Claims a port of an address of this family, or returns NO_FLOW. */
static __always_inline __s64 nat_find_port(__u32 v6, __u32 line, __u32 index)
{
	__s64 number = nat_draw_port(v6);

	if (number == NO_FLOW)
		number = nat_find_free(v6);
	return number == NO_FLOW ? nat_find_waiting(v6, line, index) : number;
}

#endif
