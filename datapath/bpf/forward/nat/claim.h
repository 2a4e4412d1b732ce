/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Taking a port, free or from another flow, and releasing it. */
#ifndef OXP_NAT_CLAIM_H
#define OXP_NAT_CLAIM_H

#include "forward/nat/shares.h"
#include "verifier.h"

/* For an address's table: struct nat_ports. */
static __always_inline __u64 *nat_taken_in(void *ports, __u64 word)
{
	_Static_assert(NAT_PORT_WORDS == 1024, "mask");
	MASK(word, 1023);
	return ports + word * sizeof(__u64);
}

static __always_inline __u64 *nat_full_in(void *ports, __u64 which)
{
	_Static_assert(sizeof(((struct nat_ports *)0)->full) == 16 * 8, "mask");
	MASK(which, 15);
	return ports + offsetof(struct nat_ports, full) + which * sizeof(__u64);
}

/* The word with the bit of the address. */
static __always_inline __u64 *nat_full_addresses(void *groups, __u32 address)
{
	return &nat_group_in(groups, address / 64)->full_addresses;
}

static __always_inline void nat_clear_bit(__u64 *word, __u64 bit)
{
	/* mostly clear: reading alone leaves the line with other CPUs */
	if (READ_ONCE(*word) & bit)
		__sync_fetch_and_and(word, ~bit);
}

/* To be called when no port of the word is free. */
static __always_inline void nat_set_full(void *ports, __u32 word)
{
	__u64 *full = nat_full_in(ports, word / 64);

	__sync_fetch_and_or(full, 1ULL << (word & 63));
	/* a CPU that has released a port meanwhile did not see the bit */
	if (~READ_ONCE(*nat_taken_in(ports, word)))
		nat_clear_bit(full, 1ULL << (word & 63));
}

static __always_inline void nat_set_taken(__u32 number)
{
	__u64 bit = 1ULL << (number & 63), before;
	void *ports = nat_table_at(number >> 16);
	__u32 word = (number & 0xffff) / 64;

	if (!ports)
		return;
	before = __sync_fetch_and_or(nat_taken_in(ports, word), bit);
	if (!~(before | bit))
		nat_set_full(ports, word);
}

/* Releases a claimed port. */
__noinline int nat_free(__u32 number)
{
	void *groups = nat_table_at(NAT_GROUPS_TABLE), *ports;
	__u32 word = (number & 0xffff) / 64, address = number >> 16;
	struct nat_flow *flow = nat_flow_at(number);

	if (!flow)
		return 0;
	WRITE_ONCE(flow->state, NAT_FREE);
	ports = nat_table_at(address);
	if (!ports || !groups)
		return 0;
	nat_clear_bit(nat_taken_in(ports, word), 1ULL << (number & 63));
	nat_clear_bit(nat_full_in(ports, word / 64), 1ULL << (word & 63));
	nat_clear_bit(nat_full_addresses(groups, address),
		      1ULL << (address & 63));
	return 0;
}

static __always_inline void nat_forget(__u32 which, const struct nat_key *key,
				       __u32 number)
{
	void *index = nat_index_at(which);
	const __u32 *known = index ? bpf_map_lookup_elem(index, key) : NULL;

	if (known && *known == number)
		bpf_map_delete_elem(index, key);
}

/* Ends the flow if its state is still this one, or takes a free port. The port
 * then belongs to the caller, which must fill or free it. */
__noinline int nat_claim(__u32 number, __u32 state)
{
	struct nat_flow *flow = nat_flow_at(number);
	struct nat_key key = {};

	if (!flow || !nat_exchange(flow, state, NAT_CLAIMED))
		return false;
	if (nat_state_of(state) == NAT_FREE) {
		nat_set_taken(number);
		return true;
	}
	__builtin_memcpy(key.client, flow->client, sizeof(key.client));
	__builtin_memcpy(key.vip, flow->vip, sizeof(key.vip));
	key.client_port = flow->client_port;
	key.port = flow->port;
	key.protocol = flow->protocol;
	nat_forget(0, &key, number);
	nat_forget(1, &key, number);
	nat_count_flow(flow, number, -1);
	if (nat_is_active(state))
		nat_count_active(flow->service, -1);
	return true;
}

#endif
