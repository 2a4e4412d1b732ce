/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All packets that the short way in forward.bpf.c does not deal with. First of
 * all: are they for a VIP? Functions return the XDP action. */
#ifndef OXP_UNUSUAL_H
#define OXP_UNUSUAL_H

#include "fragments.h"
#include "icmp.h"
#include "martian.h"

static __always_inline int send_selected(struct xdp_md *ctx,
					 const struct packet *packet,
					 const struct target *target)
{
	struct parcel parcel = {
		.block = target->block,
		.member = target->member,
		.entropy = target->entropy,
		.l3 = packet->l3,
		.l4 = packet->l4,
		.protocol = packet->protocol,
		.v6 = packet->v6,
		.kind = packet->kind,
		.opens_flow = packet->opens_flow,
	};

	if (packet->v6) {
		const struct ipv6hdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return drop(OXP_DROP_INTERNAL);
		parcel.head = head_of_v6(ip);
	} else {
		const struct iphdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return drop(OXP_DROP_INTERNAL);
		parcel.head = head_of_v4(ip);
	}
	return deliver(ctx, &parcel);
}

static __always_inline int forward_icmp(struct xdp_md *ctx,
					struct packet *packet)
{
	struct target target = {};
	const __u8 *type;
	int outcome;

	if (packet->kind != KIND_WHOLE)
		return XDP_PASS;
	type = in_packet(ctx, packet, packet->l4, 8);
	if (!type)
		return drop(OXP_DROP_MALFORMED);
	if (!is_echo(*type, packet->v6) && !is_error(*type, packet->v6))
		return XDP_PASS;
	if (is_martian(packet))
		return drop(OXP_DROP_MARTIAN);
	if (is_echo(*type, packet->v6))
		return answer_echo(ctx, packet);
	outcome = select_quoted(ctx, packet, &target);
	if (outcome != OXP_FORWARDED)
		return drop(outcome);
	packet->kind = KIND_QUOTED;
	return send_selected(ctx, packet, &target);
}

static __always_inline int forward_later(struct xdp_md *ctx,
					 struct packet *packet, __u32 vip)
{
	struct target target = {};
	int outcome;

	if (is_martian(packet))
		return drop(OXP_DROP_MARTIAN);
	outcome = select_fragment(packet, &target, vip);
	if (outcome != OXP_FORWARDED)
		return drop(outcome);
	return send_selected(ctx, packet, &target);
}

static __always_inline int forward_ports(struct xdp_md *ctx,
					 struct packet *packet)
{
	struct target target = {};
	__s64 number;
	int outcome;

	if (parse_l4(ctx, packet))
		return drop(OXP_DROP_MALFORMED);
	number = find_service(packet, packet->destination_port,
			      packet->protocol);
	if (number == NOT_FOUND) {
		if (packet->protocol == IPPROTO_UDP &&
		    packet->destination_port == bpf_htons(OXP_GUE_PORT))
			return drop(OXP_DROP_TUNNEL);
		return XDP_PASS;
	}
	if (is_martian(packet))
		return drop(OXP_DROP_MARTIAN);
	target.block = number;
	outcome = select_member(ctx, packet, &target);
	if (outcome != OXP_FORWARDED)
		return drop(outcome);
	if (packet->kind == KIND_FIRST)
		remember_fragment(packet, &target);
	return send_selected(ctx, packet, &target);
}

/* A packet to a VIP, parsed up to its protocol. */
__noinline int forward_by_protocol(struct xdp_md *ctx, struct packet *packet,
				   __u32 vip)
{
	if (!packet)
		return XDP_PASS;
	switch (packet->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		if (packet->kind == KIND_LATER)
			return forward_later(ctx, packet, vip);
		return forward_ports(ctx, packet);
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if ((packet->protocol == IPPROTO_ICMPV6) != packet->v6)
			return XDP_PASS;
		return forward_icmp(ctx, packet);
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
	case IPPROTO_GRE:
		return drop(OXP_DROP_TUNNEL);
	default:
		/* the first fragment had more extension headers */
		if (packet->kind == KIND_LATER && packet->v6 &&
		    is_extension(packet->protocol))
			return forward_later(ctx, packet, vip);
		return XDP_PASS;
	}
}

__noinline int forward_unusual_v4(struct xdp_md *ctx, __u32 l3)
{
	struct packet packet = {.l3 = l3};
	const struct iphdr *ip = at(ctx, l3, sizeof(*ip));
	__s64 vip;

	if (!ip)
		return XDP_PASS;
	from_v4(packet.source, ip->saddr);
	from_v4(packet.destination, ip->daddr);
	vip = find_v4(ip->daddr, 0, 0);
	if (vip == NOT_FOUND)
		return XDP_PASS;
	if (parse_v4(ctx, ip, &packet))
		return drop(OXP_DROP_MALFORMED);
	return forward_by_protocol(ctx, &packet, vip);
}

__noinline int forward_unusual_v6(struct xdp_md *ctx, __u32 l3)
{
	struct packet packet = {.l3 = l3, .v6 = 1};
	const struct ipv6hdr *ip = at(ctx, l3, sizeof(*ip));
	__s64 vip;

	if (!ip)
		return XDP_PASS;
	__builtin_memcpy(packet.source, &ip->saddr, 16);
	__builtin_memcpy(packet.destination, &ip->daddr, 16);
	vip = find_v6(packet.destination, 0, 0);
	if (vip == NOT_FOUND)
		return XDP_PASS;
	if (parse_v6(ctx, ip, &packet))
		return drop(OXP_DROP_MALFORMED);
	return forward_by_protocol(ctx, &packet, vip);
}

#endif
