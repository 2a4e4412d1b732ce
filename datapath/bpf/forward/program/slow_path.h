/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The slow path, for all packets that the fast path in forward.bpf.c does not
 * handle. It starts by checking whether they are for a VIP.
 *
 * Functions return the XDP action, or SELECTED: `selected` is filled in and the
 * caller delivers the packet, which saves stack. The same goes for
 * SELECTED_NAT.
 */
#ifndef OXP_SLOW_PATH_H
#define OXP_SLOW_PATH_H

#include "forward/buffers.h"
#include "forward/drop.h"
#include "forward/fragments.h"
#include "forward/icmp.h"
#include "forward/martian.h"
#include "forward/nat/nat.h"
#include "forward/reset.h"

#define SELECTED (-1)
#define SELECTED_NAT (-2) /* for nat_take(): selected->block */

static __always_inline int fill_selected(struct xdp_md *ctx,
					 const struct packet *packet,
					 struct selected *selected)
{
	selected->l3 = packet->l3;
	selected->l4 = packet->l4;
	selected->protocol = packet->protocol;
	selected->v6 = packet->v6;
	selected->kind = packet->kind;
	if (packet->v6) {
		const struct ipv6hdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return -1;
		selected->head = head_of_v6(ip);
	} else {
		const struct iphdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return -1;
		selected->head = head_of_v4(ip);
	}
	return 0;
}

static __always_inline int finish_selection(struct xdp_md *ctx,
					    const struct packet *packet,
					    const struct target *target,
					    struct selected *selected,
					    int outcome)
{
	if (outcome != OXP_FORWARDED)
		return outcome == OXP_PASS
			       ? XDP_PASS
			       : drop_at(ctx, outcome, target->block);
	selected->block = target->block;
	selected->member = target->member;
	selected->entropy = target->entropy;
	selected->alternative = target->alternative;
	selected->amid_flow = !packet->opens_flow;
	return SELECTED;
}

static __always_inline bool is_nat(__u32 line)
{
	struct block_view view;

	return find_block(line, &view) && view.block->flags & OXP_SERVICE_NAT;
}

/* `line` is the service's; `block` is the argument for nat_take(). */
static __always_inline int select_nat(struct xdp_md *ctx,
				      struct selected *selected, __u32 line,
				      __u32 block)
{
	if (!feature_nat)
		return drop_at(ctx, OXP_DROP_NAT_FULL, line);
	selected->block = block;
	return SELECTED_NAT;
}

static __always_inline int forward_icmp(struct xdp_md *ctx,
					struct packet *packet,
					struct target *target,
					struct selected *selected)
{
	const __u8 *type;
	__s64 number;
	bool martian;

	if (packet->kind != KIND_WHOLE)
		return XDP_PASS;
	type = in_packet(ctx, packet, packet->l4, 8);
	if (!type)
		return drop_unread(ctx);
	if (is_echo(*type, packet->v6))
		return answer_echo(ctx, packet);
	if (!is_icmp_error(*type, packet->v6))
		return XDP_PASS;
	martian = is_martian(packet);
	selected->kind = KIND_QUOTED;
	number = follow_quote(ctx, packet);
	if (number == NOT_FOUND)
		return drop(ctx, OXP_DROP_ICMP);
	if (is_nat(number))
		return select_nat(ctx, selected, number, 0);
	if (martian)
		return drop_at(ctx, OXP_DROP_MARTIAN, number);
	target->block = number;
	return finish_selection(ctx, packet, target, selected,
				select_slot(ctx, packet, target));
}

static __always_inline int forward_ports(struct xdp_md *ctx,
					 struct packet *packet,
					 struct target *target,
					 struct selected *selected)
{
	__s64 number;
	int outcome;

	if (parse_l4(ctx, packet))
		return drop_unread(ctx);
	number = find_service(packet, packet->destination_port,
			      packet->protocol);
	if (number == NOT_FOUND) {
		if (packet->protocol == IPPROTO_UDP &&
		    is_outer_port(packet->destination_port))
			return drop(ctx, OXP_DROP_TUNNEL);
		return XDP_PASS;
	}
	if (is_nat(number))
		return select_nat(ctx, selected, number, number);
	if (is_martian(packet))
		return drop_at(ctx, OXP_DROP_MARTIAN, number);
	target->block = number;
	outcome = select_member(ctx, packet, target);
	if (outcome == OXP_FORWARDED && packet->kind == KIND_FIRST)
		remember_fragment(packet, target);
	return finish_selection(ctx, packet, target, selected, outcome);
}

/* For a packet to a VIP, parsed up to its protocol. */
static __always_inline int forward_by_protocol(struct xdp_md *ctx,
					       struct packet *packet, __u32 vip,
					       struct selected *selected)
{
	struct target target = {};

	if (fill_selected(ctx, packet, selected))
		return drop(ctx, OXP_DROP_INTERNAL);
	if (feature_nat && packet->kind == KIND_LATER &&
	    nat_has_fragment(packet))
		return select_nat(ctx, selected, 0, 0);
	if (packet->kind == KIND_LATER &&
	    (has_ports(packet->protocol) || is_extension(packet->protocol)))
		return finish_selection(
			ctx, packet, &target, selected,
			select_fragment(ctx, packet, &target, vip));
	switch (packet->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		return forward_ports(ctx, packet, &target, selected);
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if ((packet->protocol == IPPROTO_ICMPV6) != packet->v6)
			return XDP_PASS;
		return forward_icmp(ctx, packet, &target, selected);
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
	case IPPROTO_GRE:
		return drop(ctx, OXP_DROP_TUNNEL);
	default:
		return XDP_PASS;
	}
}

/* Fills in the addresses and returns the VIP's index. */
static __always_inline __s64 find_vip(struct xdp_md *ctx, struct packet *packet)
{
	const struct ipv6hdr *v6;
	const struct iphdr *v4;

	if (packet->v6) {
		v6 = at(ctx, packet->l3, sizeof(*v6));
		if (!v6)
			return NOT_FOUND;
		__builtin_memcpy(packet->source, &v6->saddr, 16);
		__builtin_memcpy(packet->destination, &v6->daddr, 16);
		return find_v6(packet->destination, 0, 0);
	}
	v4 = at(ctx, packet->l3, sizeof(*v4));
	if (!v4)
		return NOT_FOUND;
	from_v4(packet->source, v4->saddr);
	from_v4(packet->destination, v4->daddr);
	return find_v4(v4->daddr, 0, 0);
}

static __always_inline int parse_ip(struct xdp_md *ctx, struct packet *packet)
{
	return packet->v6 ? parse_v6(ctx, packet) : parse_v4(ctx, packet);
}

__noinline int forward_slow_path(struct xdp_md *ctx, __u32 l3, __u32 v6,
				 struct selected *selected)
{
	struct packet packet = {.l3 = l3, .v6 = v6};
	__s64 vip;

	if (!selected)
		return XDP_PASS;
	vip = find_vip(ctx, &packet);
	if (vip == NOT_FOUND)
		return XDP_PASS;
	if (feature_nat && vip & LOOKUP_POOL)
		return select_nat(ctx, selected, 0, vip);
	if (parse_ip(ctx, &packet))
		return drop_unread(ctx);
	return forward_by_protocol(ctx, &packet, vip, selected);
}

#endif
