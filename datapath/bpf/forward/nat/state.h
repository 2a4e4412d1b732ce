/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a packet does to its flow's state: doc/source/contributor/nat.rst. */
#ifndef OXP_NAT_STATE_H
#define OXP_NAT_STATE_H

#include "forward/nat/allocate.h"

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4

/* Another CPU may see the other direction's packet at the same time. */
#define NAT_TOUCH_TRIES 3

/* Byte of the TCP header; 0 of what has none. */
static __always_inline __u32 nat_tcp_flags(struct xdp_md *ctx,
					   const struct packet *packet)
{
	const __u8 *tcp;

	if (packet->protocol != IPPROTO_TCP || packet->kind == KIND_LATER)
		return 0;
	tcp = at(ctx, packet->l4, sizeof(struct tcphdr));
	return tcp ? tcp[13] : 0;
}

static __always_inline __u32 nat_with_fin(__u32 state, __u32 fin)
{
	state |= fin;
	if ((state & NAT_FIN) == NAT_FIN)
		state = (state & ~NAT_STATE) | NAT_TIME_WAIT;
	return state;
}

static __always_inline __u32 nat_next_state(__u32 state, __u32 flags,
					    bool from_member)
{
	if (nat_state_of(state) == NAT_TIME_WAIT)
		return state;
	if (flags & TCP_RST)
		return (state & ~NAT_STATE) | NAT_TIME_WAIT | NAT_RESET;
	if (from_member)
		state |= NAT_REPLIED;
	else if (state & NAT_REPLIED && !(flags & TCP_SYN))
		state = (state & ~NAT_STATE) | NAT_ESTABLISHED;
	if (flags & TCP_FIN)
		state = nat_with_fin(state, from_member ? NAT_FIN_MEMBER
							: NAT_FIN_CLIENT);
	return state;
}

/* Before the packet is changed. */
__noinline int nat_touch(struct xdp_md *ctx, const struct packet *packet,
			 __u32 number, __u32 from_member)
{
	struct nat_flow *flow = nat_flow_at(number);
	__u32 state, next, flags, now;

	if (!packet || !flow || !writes_nat)
		return 0;
	flags = nat_tcp_flags(ctx, packet);
	for (int i = 0; i < NAT_TOUCH_TRIES; i++) {
		state = READ_ONCE(flow->state);
		if (nat_state_of(state) < NAT_HALF_OPEN)
			return 0;
		next = nat_next_state(state, flags, from_member);
		if (next == state)
			break;
		if (!nat_exchange(flow, state, next))
			continue;
		if (nat_is_active(state) && !nat_is_active(next))
			nat_count_active(flow->service, -1);
		break;
	}
	if (nat_state_of(state) == NAT_TIME_WAIT &&
	    (!(state & NAT_RESET) || flags & TCP_RST))
		return 0;
	now = nat_now();
	if (READ_ONCE(flow->seen) != now)
		WRITE_ONCE(flow->seen, now);
	return 0;
}

#endif
