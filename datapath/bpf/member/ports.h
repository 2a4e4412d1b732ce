/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For a member that listens on another port than the listener.
 *
 *   in:   client -> VIP:listener   becomes   client -> VIP:local
 *   out:  VIP:local -> client      becomes   VIP:listener -> client
 *
 * An ICMP error quotes a packet of the other direction as it was on the
 * network: incoming errors quote VIP:listener -> client, those that the member
 * sends quote client -> VIP:local. The checksum of the quoted packet is not
 * corrected: few quotes are long enough to include it, and nobody verifies it.
 */
#ifndef OXP_MEMBER_PORTS_H
#define OXP_MEMBER_PORTS_H

#include "member/maps.h"
#include "transport.h"

enum direction {
	IN,
	OUT
};

/* The replacement of `port`; 0: none. */
static __always_inline __be16 other_port(const enum direction direction,
					 const struct ip_address *vip,
					 __u8 protocol, __be16 port)
{
	struct member_port_key key = {
		.vip = *vip, .port = port, .protocol = protocol};
	__be16 *found = direction == IN ? bpf_map_lookup_elem(&ports_in, &key)
					: bpf_map_lookup_elem(&ports_out, &key);

	return found ? *found : 0;
}

static __always_inline bool has_ports(const struct transport *transport)
{
	return !transport->later && (transport->protocol == IPPROTO_TCP ||
				     transport->protocol == IPPROTO_UDP);
}

/* For an ICMP error: rewrites the port in its quote. */
static __always_inline int rewrite_quoted(void *ctx, const bool skb,
					  const struct transport *error,
					  const enum direction direction)
{
	struct transport quoted = {};
	struct ip_address vip;
	__u32 at, sum;
	__be16 from, to;

	if (find_transport(ctx, skb, error->offset + ICMP_HEADER, &quoted) ||
	    quoted.version != error->version || !has_ports(&quoted))
		return 0;
	vip = direction == IN ? quoted.source : quoted.destination;
	at = quoted.offset + (direction == IN ? 0 : 2);
	if (frame_load(ctx, skb, at, &from, sizeof(from)))
		return 0;
	to = other_port(direction, &vip, quoted.protocol, from);
	if (!to)
		return 0;
	sum = error->offset + ICMP_CHECKSUM;
	if (frame_store(ctx, skb, at, &to, sizeof(to)) ||
	    frame_fix_l4(ctx, skb, sum, from, to, false))
		return -1;
	count(direction == IN ? MEMBER_ERROR_IN : MEMBER_ERROR_OUT);
	return 0;
}

/* Negative: the packet is partly changed and must be dropped. */
static __always_inline int rewrite_port(void *ctx, const bool skb,
					const struct transport *transport,
					const enum direction direction)
{
	const struct ip_address *vip =
		direction == IN ? &transport->destination : &transport->source;
	__u32 at = transport->offset + (direction == IN ? 2 : 0);
	/* only used for TCP and UDP, where it is the same for both families */
	__u32 sum =
		transport->offset + checksum_offset(transport->protocol, true);
	__be16 from, to, unused;
	__u8 type;

	if (transport->later)
		return 0;
	if (!has_ports(transport)) {
		if (frame_load(ctx, skb, transport->offset, &type, 1) ||
		    !is_error(transport, type))
			return 0;
		return rewrite_quoted(ctx, skb, transport, direction);
	}
	/* A packet too short for its checksum is left to the stack. */
	if (frame_load(ctx, skb, at, &from, sizeof(from)) ||
	    frame_load(ctx, skb, sum, &unused, sizeof(unused)))
		return 0;
	to = other_port(direction, vip, transport->protocol, from);
	if (!to)
		return 0;
	if (frame_store(ctx, skb, at, &to, sizeof(to)) ||
	    frame_fix_l4(ctx, skb, sum, from, to,
			 transport->protocol == IPPROTO_UDP))
		return -1;
	count(direction == IN ? MEMBER_PORT_IN : MEMBER_PORT_OUT);
	return 0;
}

#endif
