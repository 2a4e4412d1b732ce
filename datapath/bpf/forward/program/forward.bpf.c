/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The forwarding program of a load balancer node. doc/source/contributor/
 * forwarding.rst is its contract.
 *
 * This file is the fast path, which nearly every packet takes: TCP and UDP
 * without fragments, IPv4 options and IPv6 extension headers. Other packets,
 * and those that are not whole in the frame's first buffer, leave it for
 * separate functions, most of them for the slow path.
 */
#include "forward/buffers.h"
#include "forward/martian.h"
#include "forward/select.h"
#include "forward/send.h"

#include "forward/program/slow_path.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Version 4, ihl 5, no fragment. */
#define HEAD_PLAIN_MASK (0xff3fULL << 48 | 0xff)
#define HEAD_PLAIN 0x45

/* Instead of an XDP action: the first buffer ends before the IP header does. */
#define ENDS_EARLY (-1)

/* Fields of TCP and UDP in the fast path. */
struct ports {
	__be16 source;
	__be16 destination;
	__u32 amid_flow; /* 0: the packet opens a flow; unknown for UDP */
};

/* In the form for hashes. */
static __always_inline __u32 both_of(const struct ports *ports)
{
	return (__u32)ports->source << 16 | ports->destination;
}

/* Minimum length of the transport's header, 0: not for the fast path. */
static __always_inline __u32 plain_l4(__u8 protocol)
{
	if (likely(protocol == IPPROTO_TCP))
		return sizeof(struct tcphdr);
	return protocol == IPPROTO_UDP ? sizeof(struct udphdr) : 0;
}

/* Returns false if the header is not all in the frame. */
static __always_inline bool read_ports(const void *l4, const void *end,
				       __u8 protocol, struct ports *ports)
{
	const struct udphdr *udp = l4;

	ports->amid_flow = true;
	if (likely(protocol == IPPROTO_TCP)) {
		if (unlikely(l4 + sizeof(struct tcphdr) > end))
			return false;
		ports->amid_flow = is_amid_flow(l4);
	} else if (unlikely(l4 + sizeof(*udp) > end)) {
		return false;
	}
	ports->source = udp->source;
	ports->destination = udp->dest;
	return true;
}

static __always_inline bool is_special(const struct service_block *block)
{
	return (block->flags & BLOCK_SPECIAL) | block->new_flow_rate;
}

/* Whether a hash and a table decide alone. */
static __always_inline bool is_plain(const struct service_block *block)
{
	return !((block->flags & (BLOCK_SPECIAL | BLOCK_ASK)) |
		 block->new_flow_rate);
}

/* The same for blocks with undecided slots, if this slot is decided. */
static __always_inline bool is_settled(const struct block_view *view,
				       __u32 position)
{
	/* Recompute the slot rather than keep it on the stack. */
	barrier_var(position);
	return !is_special(view->block) &&
	       !is_undecided(view, slot_at(position, view->block->slots));
}

/* Allowed networks alone keep a packet on the fast path. */
static __always_inline bool has_only_networks(const struct service_block *block)
{
	return (block->flags & BLOCK_SPECIAL) == BLOCK_ALLOWED &&
	       !block->new_flow_rate;
}

static __always_inline bool is_source_allowed(const void *header,
					      const struct selected *selected,
					      __u32 networks)
{
	const struct ipv6hdr *v6 = header;
	const struct iphdr *v4 = header;

	return selected->v6
		       ? is_allowed((const __be32 *)&v6->saddr, true, networks)
		       : is_allowed(&v4->saddr, false, networks);
}

/* Only the client's address keeps flows together, and every slot is decided. */
static __always_inline bool is_only_source(const struct service_block *block)
{
	return (block->flags & (BLOCK_SPECIAL | BLOCK_ASK)) ==
		       OXP_SERVICE_SOURCE &&
	       !block->new_flow_rate;
}

static __always_inline __u64 hash_of_source(const void *header, bool is_v6,
					    const struct service_block *block)
{
	const struct ipv6hdr *v6 = header;
	const struct iphdr *v4 = header;
	struct flow flow;

	if (is_v6) {
		__builtin_memcpy(flow.source, &v6->saddr, sizeof(flow.source));
		cut_source(&flow, true, block);
		return called_hash_v6(flow.source, (const __be32 *)&v6->daddr,
				      flow.ports, flow.protocol, FLOW_SEED);
	}
	flow.source[3] = v4->saddr;
	cut_source(&flow, false, block);
	return seeded_hash_v4(flow.source[3], v4->daddr, flow.ports,
			      flow.protocol, FLOW_SEED);
}

/* For functions that take a packet; inlined, so that it is only filled in where
 * they are called. */
static __always_inline void fill(struct packet *packet, const void *header,
				 const struct selected *selected,
				 const struct ports *ports)
{
	if (selected->v6) {
		const struct ipv6hdr *ip = header;

		__builtin_memcpy(packet->source, &ip->saddr, 16);
		__builtin_memcpy(packet->destination, &ip->daddr, 16);
	} else {
		const struct iphdr *ip = header;

		from_v4(packet->source, ip->saddr);
		from_v4(packet->destination, ip->daddr);
	}
	packet->l3 = selected->l3;
	packet->l4 = plain_l4_of(selected);
	packet->end = selected->l3 + head_length(selected->head);
	packet->source_port = ports->source;
	packet->destination_port = ports->destination;
	packet->protocol = selected->protocol;
	packet->v6 = selected->v6;
	packet->opens_flow = !ports->amid_flow;
}

static __always_inline __u64 hash_of_flow(const void *header,
					  const struct selected *selected,
					  const struct ports *ports)
{
	const struct ipv6hdr *v6 = header;
	const struct iphdr *v4 = header;

	if (selected->v6)
		return seeded_hash_v6(
			(const __be32 *)&v6->saddr, (const __be32 *)&v6->daddr,
			both_of(ports), selected->protocol, FLOW_SEED);
	return seeded_hash_v4(v4->saddr, v4->daddr, both_of(ports),
			      selected->protocol, FLOW_SEED);
}

/* The input of flow_name(). */
static __always_inline __u64 seeded_hash_of(const void *header,
					    const struct selected *selected,
					    const struct ports *ports)
{
	const struct ipv6hdr *v6 = header;
	const struct iphdr *v4 = header;
	struct ports own = *ports;

	/* Do not reuse values of hash_of_flow(): all packets would keep them.
	 */
	barrier_var(own.source);
	if (selected->v6)
		return called_hash_v6((const __be32 *)&v6->saddr,
				      (const __be32 *)&v6->daddr, both_of(&own),
				      selected->protocol, node_seed);
	return seeded_hash_v4(v4->saddr, v4->daddr, both_of(&own),
			      selected->protocol, node_seed);
}

/* For a slot that is undecided. */
static __always_inline void select_open(struct xdp_md *ctx, const void *header,
					struct selected *selected,
					const struct ports *ports,
					const struct block_view *view,
					__u32 position)
{
	__u32 slot = slot_at(position, view->block->slots);
	struct packet packet = {};

	fill(&packet, header, selected, ports);
	selected->member =
		is_still_open(view, slot)
			? open_slot(ctx, &packet, selected->block, position,
				    name_of(seeded_hash_of(header, selected,
							   ports),
					    view->block))
			: owner_of_slot(view, slot);
	if (view->block->flags & OXP_SERVICE_SECOND_CHANCE)
		selected->alternative = find_alternative(
			&packet, selected->block, position, selected->member);
}

static __always_inline int take_nat(struct xdp_md *ctx,
				    const struct selected *selected)
{
	return feature_nat ? nat_take(ctx, selected->l3, selected->v6,
				      selected->block)
			   : drop_plain(ctx, OXP_DROP_NAT_FULL);
}

/* Out of line except for NAT. Returns as select_other() does. */
static __always_inline bool
select_special(struct xdp_md *ctx, const void *header,
	       struct selected *selected, const struct ports *ports,
	       const struct service_block *block, int *action)
{
	struct target target = {};
	struct packet packet = {};
	int outcome;

	if (block->flags & OXP_SERVICE_NAT) {
		*action = take_nat(ctx, selected);
		return false;
	}
	target.block = selected->block;
	fill(&packet, header, selected, ports);
	outcome = select_member(ctx, &packet, &target);
	selected->member = target.member;
	selected->entropy = target.entropy;
	selected->alternative = target.alternative;
	selected->amid_flow = !packet.opens_flow;
	if (outcome == OXP_FORWARDED)
		return true;
	*action = drop_plain(ctx, outcome);
	return false;
}

/* For a service that is not plain. Returns whether to continue with the packet;
 * if not, *action is the XDP action. */
static __always_inline bool select_other(struct xdp_md *ctx, const void *header,
					 struct selected *selected,
					 const struct ports *ports,
					 const struct block_view *view,
					 __u32 position, int *action)
{
	const struct service_block *block = view->block;
	__u32 slot;
	__u64 hash;

	if (is_only_source(block)) {
		hash = hash_of_source(header, selected->v6, block);
		selected->entropy = flow_entropy(hash);
		position = flow_position(hash);
	} else if (is_special(block)) {
		if (!has_only_networks(block))
			return select_special(ctx, header, selected, ports,
					      block, action);
		if (!is_source_allowed(header, selected, block->networks)) {
			*action = drop_plain(ctx, OXP_DROP_NOT_ALLOWED);
			return false;
		}
	}
	/* as in is_settled() */
	barrier_var(position);
	slot = slot_at(position, block->slots);
	if (block->flags & BLOCK_ASK && is_undecided(view, slot))
		select_open(ctx, header, selected, ports, view, position);
	else
		selected->member = owner_of_slot(view, slot);
	return true;
}

/* Forwards a packet of a service to its member. */
static __always_inline int forward(struct xdp_md *ctx, const void *header,
				   struct selected *selected,
				   const struct ports *ports)
{
	__u64 hash = hash_of_flow(header, selected, ports);
	__u32 position, member, amid_flow = ports->amid_flow;
	struct block_view view;
	int action;

	/* force evaluation here to avoid spills */
	barrier_var(hash);
	position = flow_position(hash);
	if (!find_block(selected->block, &view))
		return drop_plain(ctx, OXP_DROP_INTERNAL);
	if (unlikely(config.usual_slots))
		fetch_ahead(&view, position, config.usual_slot_line,
			    config.usual_slots);
	selected->amid_flow = amid_flow;
	selected->entropy = flow_entropy(hash);
	if (likely(is_plain(view.block)) || is_settled(&view, position)) {
		member = owner_of_slot(&view,
				       slot_at(position, view.block->slots));
	} else {
		if (!select_other(ctx, header, selected, ports, &view, position,
				  &action))
			return action;
		if (selected->alternative &&
		    selected->member < view.block->members)
			return deliver_plain(ctx, selected);
		member = selected->member;
		amid_flow = selected->amid_flow;
	}
	if (unlikely(member >= view.block->members))
		return drop_plain(ctx, OXP_DROP_NO_MEMBER);
	selected->member = member;
	return send(ctx, selected, &view, member_of(&view, member), amid_flow);
}

static __always_inline int take_slow_path(struct xdp_md *ctx, __u32 l3, bool v6)
{
	struct selected selected = {};
	int action;

	pull_headers(ctx);
	action = forward_slow_path(ctx, l3, v6, &selected);
	if (feature_nat && action == SELECTED_NAT)
		return nat_take(ctx, l3, v6, selected.block);
	return action == SELECTED ? deliver(ctx, &selected, frame_length(ctx))
				  : action;
}

/* The frame's first buffer ends before the IP header does. */
static __always_inline int forward_pulled(struct xdp_md *ctx)
{
	const __u8 *ip;
	__be16 type;
	__u32 l3;

	if (!pull_headers(ctx))
		return XDP_PASS;
	type = parse_link(ctx, &l3);
	ip = at(ctx, l3, 1);
	if (!ip)
		return XDP_PASS;
	if (type == bpf_htons(ETH_P_IP) && *ip >> 4 == 4)
		return take_slow_path(ctx, l3, false);
	if (type == bpf_htons(ETH_P_IPV6) && *ip >> 4 == 6)
		return take_slow_path(ctx, l3, true);
	return XDP_PASS;
}

/* A packet without a service may be a reply to NAT. Returns whether it is to a
 * pool; *action is then the XDP action. */
static __always_inline bool take_answer(struct xdp_md *ctx, __s64 vip, __u32 l3,
					bool v6, int *action)
{
	if (vip == NOT_FOUND || !(vip & LOOKUP_POOL))
		return false;
	*action = nat_take(ctx, l3, v6, vip);
	return true;
}

/* A packet without a service is not ours unless it looks like a tunnel. */
static __always_inline bool is_tunnel(__u8 protocol, const struct ports *ports)
{
	return protocol == IPPROTO_UDP && is_outer_port(ports->destination);
}

static __always_inline int forward_v4(struct xdp_md *ctx, __u32 l3)
{
	const void *end = frame_end(ctx);
	const struct iphdr *ip = frame_start(ctx) + l3;
	struct selected selected = {.l3 = l3};
	struct ports ports;
	__u32 length;
	__s64 number;
	int action;

	if ((void *)(ip + 1) > end)
		return ENDS_EARLY;
	selected.head = head_of_v4(ip);
	selected.protocol = ip->protocol;
	if (unlikely((selected.head & HEAD_PLAIN_MASK) != HEAD_PLAIN)) {
		if (ip->version != 4)
			return XDP_PASS;
		return take_slow_path(ctx, l3, false);
	}
	length = plain_l4(selected.protocol);
	if (unlikely(!length ||
		     head_length(selected.head) < sizeof(*ip) + length ||
		     head_length(selected.head) > bytes_from(ctx, ip) ||
		     !read_ports(ip + 1, end, selected.protocol, &ports)))
		return take_slow_path(ctx, l3, false);
	number = find_v4(ip->daddr, ports.destination, selected.protocol);
	if (number == NOT_FOUND) {
		if (unlikely(is_tunnel(selected.protocol, &ports)))
			return take_slow_path(ctx, l3, false);
		if (feature_nat && take_answer(ctx, find_v4(ip->daddr, 0, 0),
					       l3, false, &action))
			return action;
		return XDP_PASS;
	}
	if (unlikely(no_client_v4(ip->saddr, ip->daddr)))
		return drop_plain(ctx, OXP_DROP_MARTIAN);
	selected.block = number;
	return forward(ctx, ip, &selected, &ports);
}

static __always_inline int forward_v6(struct xdp_md *ctx, __u32 l3)
{
	const void *end = frame_end(ctx);
	const struct ipv6hdr *ip = frame_start(ctx) + l3;
	struct selected selected = {.l3 = l3, .v6 = 1};
	const __be32 *source = (const __be32 *)&ip->saddr;
	const __be32 *destination = (const __be32 *)&ip->daddr;
	struct ports ports;
	__u32 length;
	__s64 number;
	int action;

	if ((void *)(ip + 1) > end)
		return ENDS_EARLY;
	if (ip->version != 6)
		return XDP_PASS;
	selected.protocol = ip->nexthdr;
	length = plain_l4(selected.protocol);
	if (unlikely(!length || bpf_ntohs(ip->payload_len) < length ||
		     bpf_ntohs(ip->payload_len) > bytes_from(ctx, ip + 1) ||
		     !read_ports(ip + 1, end, selected.protocol, &ports)))
		return take_slow_path(ctx, l3, true);
	number = find_v6(destination, ports.destination, selected.protocol);
	if (number == NOT_FOUND) {
		if (unlikely(is_tunnel(selected.protocol, &ports)))
			return take_slow_path(ctx, l3, true);
		if (feature_nat && take_answer(ctx, find_v6(destination, 0, 0),
					       l3, true, &action))
			return action;
		return XDP_PASS;
	}
	if (unlikely(no_client_v6(source, destination)))
		return drop_plain(ctx, OXP_DROP_MARTIAN);
	selected.head = head_of_v6(ip);
	selected.block = number;
	return forward(ctx, ip, &selected, &ports);
}

SEC("xdp.frags")
int oxp_forward(struct xdp_md *ctx)
{
	__u32 l3;
	__be16 type = parse_link(ctx, &l3);
	int action = XDP_PASS;

	if (likely(type == bpf_htons(ETH_P_IP)))
		action = forward_v4(ctx, l3);
	else if (type == bpf_htons(ETH_P_IPV6))
		action = forward_v6(ctx, l3);
	else if (!type)
		action = ENDS_EARLY;
	return unlikely(action == ENDS_EARLY) ? forward_pulled(ctx) : action;
}
