/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a packet changes its flow's state: doc/source/contributor/nat.rst. */
#ifndef OXP_NAT_STATE_H
#define OXP_NAT_STATE_H

#include "forward/nat/allocate.h"

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16
/* Offsets of the sequence and acknowledgement numbers in the TCP header. */
#define TCP_SEQUENCE 4
#define TCP_NUMBER 8
/* Maximum distance of a client's packet from its flow's sequence number. */
#define NAT_NEAR (1U << 20)

/* Retries: another CPU may process the other direction at the same time. */
#define NAT_TOUCH_TRIES 3

/* The TCP header, or NULL for packets without one. */
static __always_inline const __u8 *nat_tcp(struct xdp_md *ctx,
					   const struct packet *packet)
{
	if (packet->protocol != IPPROTO_TCP || packet->kind == KIND_LATER)
		return NULL;
	return at(ctx, packet->l4, sizeof(struct tcphdr));
}

/* A byte of the TCP header; 0 for packets without one. */
static __always_inline __u32 nat_tcp_flags(struct xdp_md *ctx,
					   const struct packet *packet)
{
	const __u8 *tcp = nat_tcp(ctx, packet);

	return tcp ? tcp[13] : 0;
}

/* Whether the flow, in NAT_TIME_WAIT, may belong to an earlier connection than
 * the client's packet, which opens none. */
__noinline int nat_may_be_earlier(struct xdp_md *ctx,
				  const struct packet *packet, __u32 number)
{
	const struct nat_flow *flow = nat_flow_at(number);
	const __u8 *tcp;
	__u32 sequence;

	if (!packet || !flow)
		return false;
	tcp = nat_tcp(ctx, packet);
	if (!tcp)
		return false;
	sequence = READ_ONCE(flow->sequence);
	return !sequence || bpf_ntohl(*(const __be32 *)(tcp + TCP_SEQUENCE)) -
					    sequence + NAT_NEAR >=
				    2 * NAT_NEAR;
}

/* For a flow in NAT_TIME_WAIT. */
__noinline int nat_note_sequence(struct xdp_md *ctx,
				 const struct packet *packet, __u32 number,
				 __u32 from_member)
{
	struct nat_flow *flow = nat_flow_at(number);
	__u32 sequence;
	const __u8 *tcp;

	if (!packet || !flow)
		return 0;
	tcp = nat_tcp(ctx, packet);
	if (!tcp || (from_member && !(tcp[13] & TCP_ACK)))
		return 0;
	sequence = bpf_ntohl(
		*(const __be32 *)(tcp +
				  (from_member ? TCP_NUMBER : TCP_SEQUENCE)));
	WRITE_ONCE(flow->sequence, sequence ? sequence : 1);
	return 0;
}

static __always_inline __u32 nat_with_fin(__u32 state, __u32 fin)
{
	state |= fin;
	if ((state & NAT_FIN) == NAT_FIN)
		state = (state & ~NAT_STATE) | NAT_TIME_WAIT;
	return state;
}

/* A RST's sequence number is not checked, so the RST may be forged, or be one
 * of the client's that the member does not accept. If both ends go on sending
 * anything else, it has ended nothing. */
static __always_inline __u32 nat_behind_reset(__u32 state, __u32 flags,
					      bool from_member)
{
	if (from_member)
		state |= NAT_SINCE_MEMBER;
	else if (!(flags & TCP_SYN))
		state |= NAT_SINCE_CLIENT;
	if ((state & NAT_SINCE) != NAT_SINCE)
		return state;
	state &= ~(NAT_STATE | NAT_SINCE | NAT_RESET);
	return state | NAT_ESTABLISHED | NAT_REPLIED;
}

static __always_inline __u32 nat_next_state(__u32 state, __u32 flags,
					    bool from_member)
{
	__u32 fin = from_member ? NAT_FIN_MEMBER : NAT_FIN_CLIENT;

	if (nat_state_of(state) == NAT_TIME_WAIT && !(state & NAT_RESET))
		return state;
	if (flags & TCP_RST) {
		state &= ~(NAT_STATE | NAT_SINCE);
		return state | NAT_TIME_WAIT | NAT_RESET;
	}
	if (state & NAT_RESET)
		state = nat_behind_reset(state, flags, from_member);
	else if (from_member)
		state |= NAT_REPLIED;
	else if (state & NAT_REPLIED && !(flags & TCP_SYN))
		state = (state & ~NAT_STATE) | NAT_ESTABLISHED;
	return nat_with_fin(state, flags & TCP_FIN ? fin : 0);
}

/* To be called before the packet is changed. Returns whether the packet may
 * continue: a flow that a RST seemed to end comes back only if the service's
 * limit has room for it. */
__noinline int nat_touch(struct xdp_md *ctx, const struct packet *packet,
			 __u32 number, __u32 from_member)
{
	struct nat_flow *flow = nat_flow_at(number);
	__u32 state, next = 0, flags, now;
	int change;

	if (!packet || !flow || !writes_nat)
		return true;
	flags = nat_tcp_flags(ctx, packet);
	for (int i = 0; i < NAT_TOUCH_TRIES; i++) {
		state = READ_ONCE(flow->state);
		if (nat_state_of(state) < NAT_HALF_OPEN)
			return true;
		next = nat_next_state(state, flags, from_member);
		if (next == state)
			break;
		change = (int)nat_is_active(next) - (int)nat_is_active(state);
		if (change > 0 && !nat_take_place(flow->service, true))
			return false;
		if (!nat_exchange(flow, state, next)) {
			if (change > 0)
				nat_count_active(flow->service, -1);
			continue;
		}
		if (change < 0)
			nat_count_active(flow->service, -1);
		break;
	}
	if (nat_state_of(next) == NAT_TIME_WAIT)
		nat_note_sequence(ctx, packet, number, from_member);
	if (nat_state_of(state) == NAT_TIME_WAIT &&
	    (!(state & NAT_RESET) || flags & TCP_RST))
		return true;
	now = nat_now();
	if (READ_ONCE(flow->seen) != now)
		WRITE_ONCE(flow->seen, now);
	return true;
}

#endif
