/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Later fragments follow the first: with its flow, or to the peer that has it.
 */
#ifndef OXP_NAT_FRAGMENTS_H
#define OXP_NAT_FRAGMENTS_H

#include "forward/fragments.h"
#include "forward/nat/flow.h"

#define NO_PEER OXP_NAT_PEERS_MAX

/* To be called after the first fragment, which belongs to flow `number`. */
static __always_inline void nat_remember_fragment(const struct packet *packet,
						  __u32 number)
{
	const struct nat_flow *flow = nat_flow_at(number);

	if (writes_nat && flow)
		leave_fragment(packet, FRAGMENT_GROUP | flow->group,
			       FRAGMENT_OF_NAT, number);
}

/* To be called after the first fragment, which went to the peer at `place`. */
static __always_inline void nat_remember_peer(const struct packet *packet,
					      __u32 place)
{
	if (writes_nat)
		leave_fragment(packet, owner_of_fragment(packet),
			       FRAGMENT_OF_PEER,
			       fragment_value(place, 0, packet->source_port));
}

/* The flow with this number if it can be that of a later fragment; the number
 * may have been reused. */
static __always_inline __s64 nat_flow_of_later(const struct packet *packet,
					       __u32 number)
{
	const struct nat_flow *flow = nat_flow_at(number);

	if (!flow || nat_state_of(READ_ONCE(flow->state)) < NAT_HALF_OPEN)
		return NO_FLOW;
	if (same_words(flow->vip, packet->destination))
		return same_words(flow->client, packet->source) ? number
								: NO_FLOW;
	return same_words(flow->member, packet->source) ? number : NO_FLOW;
}

/* The flow of a later fragment, which is that of its first fragment. */
__noinline __s64 nat_follow_fragment(const struct packet *packet)
{
	__u64 value = 0;

	if (!packet || what_first_left(packet, &value) != FRAGMENT_OF_NAT)
		return NO_FLOW;
	return nat_flow_of_later(packet, value);
}

/* The place of the peer with the first fragment, and the client's port, or
 * NO_PEER. */
__noinline int nat_follow_to_peer(const struct packet *packet, __be16 *port)
{
	__u64 value = 0;

	if (!packet || !port ||
	    what_first_left(packet, &value) != FRAGMENT_OF_PEER)
		return NO_PEER;
	*port = value >> 48;
	return (__u32)value < NO_PEER ? (__u32)value : NO_PEER;
}

/* Whether a later fragment to a VIP belongs to NAT. */
__noinline int nat_has_fragment(const struct packet *packet)
{
	__u64 value = 0;
	__u32 what;

	if (!packet)
		return false;
	what = what_first_left(packet, &value);
	if (what == FRAGMENT_OF_PEER)
		return (__u32)value < NO_PEER;
	return what == FRAGMENT_OF_NAT &&
	       nat_flow_of_later(packet, value) != NO_FLOW;
}

#endif
