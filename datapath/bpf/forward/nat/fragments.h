/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Later fragments follow the first one: with its flow, or to the peer that has
 * the flow. */
#ifndef OXP_NAT_FRAGMENTS_H
#define OXP_NAT_FRAGMENTS_H

#include "forward/fragments.h"
#include "forward/nat/flow.h"

#define NO_PEER OXP_NAT_PEERS_MAX

/* After the first fragment: where later ones go, by the number of a flow or the
 * place of a peer. */
__noinline int nat_remember_fragment(const struct packet *packet, __u32 what,
				     __u32 number)
{
	struct fragment_owner owner = {.service = number, .nat = what};
	struct fragment_key key;

	if (!packet || !writes_nat)
		return 0;
	if (what == FRAGMENT_OF_PEER)
		owner.port = packet->source_port;
	fragment_key_of(packet, &key);
	bpf_map_update_elem(&fragments, &key, &owner, BPF_ANY);
	return 0;
}

static __always_inline const struct fragment_owner *
nat_owner_of_fragment(const struct packet *packet)
{
	struct fragment_key key;

	fragment_key_of(packet, &key);
	return bpf_map_lookup_elem(&fragments, &key);
}

/* The flow of a later fragment, which is one that its first one had. */
__noinline __s64 nat_follow_fragment(const struct packet *packet)
{
	const struct fragment_owner *owner;
	const struct nat_flow *flow;

	if (!packet)
		return NO_FLOW;
	owner = nat_owner_of_fragment(packet);
	if (!owner || owner->nat != FRAGMENT_OF_NAT)
		return NO_FLOW;
	flow = nat_flow_at(owner->service);
	if (!flow || nat_state_of(READ_ONCE(flow->state)) < NAT_HALF_OPEN)
		return NO_FLOW;
	/* it may be another one by now */
	if (same_words(flow->vip, packet->destination))
		return same_words(flow->client, packet->source) ? owner->service
								: NO_FLOW;
	return same_words(flow->member, packet->source) ? owner->service
							: NO_FLOW;
}

/* The place of the peer that the first fragment went to, and the client's port,
 * or NO_PEER. */
__noinline int nat_follow_to_peer(const struct packet *packet, __be16 *port)
{
	const struct fragment_owner *owner;

	if (!packet || !port)
		return NO_PEER;
	owner = nat_owner_of_fragment(packet);
	if (!owner || owner->nat != FRAGMENT_OF_PEER)
		return NO_PEER;
	*port = owner->port;
	return owner->service < NO_PEER ? owner->service : NO_PEER;
}

/* Whether a later fragment to a VIP is NAT's. */
__noinline int nat_has_fragment(const struct packet *packet)
{
	const struct fragment_owner *owner;

	if (!packet)
		return false;
	owner = nat_owner_of_fragment(packet);
	if (!owner)
		return false;
	if (owner->nat == FRAGMENT_OF_PEER)
		return owner->service < NO_PEER;
	return owner->nat == FRAGMENT_OF_NAT &&
	       nat_follow_fragment(packet) != NO_FLOW;
}

#endif
