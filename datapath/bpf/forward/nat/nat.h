/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Network address translation; doc/source/contributor/nat.rst is its contract.
 * Packets come here once they are known to be for a NAT service, or for an
 * address of a pool. They are parsed again: what the fast path knows does not
 * outlive the call.
 */
#ifndef OXP_NAT_H
#define OXP_NAT_H

#include "forward/buffers.h"
#include "forward/icmp.h"
#include "forward/nat/allocate.h"
#include "forward/nat/error.h"
#include "forward/nat/fragments.h"
#include "forward/nat/header.h"
#include "forward/nat/peers.h"
#include "forward/nat/reset.h"
#include "forward/nat/send.h"
#include "forward/nat/state.h"
#include "forward/nat/transport.h"
#include "forward/nat/work.h"
#include "forward/reset.h"

/* For packets to a pool, instead of the line of a service's block: the number
 * of the address with LOOKUP_POOL. Lines are below that. */
#define NAT_TO_POOL LOOKUP_POOL
_Static_assert((__u64)SEGMENTS_MAX *SEGMENT_LINES < LOOKUP_POOL, "lines");

/* Parses addresses and everything up to the transport's header. */
__noinline int nat_parse(struct xdp_md *ctx, struct packet *packet)
{
	if (!packet)
		return -1;
	if (packet->v6) {
		const struct ipv6hdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return -1;
		__builtin_memcpy(packet->source, &ip->saddr, 16);
		__builtin_memcpy(packet->destination, &ip->daddr, 16);
		packet->reserved = 1;
		return parse_v6(ctx, packet);
	} else {
		const struct iphdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return -1;
		from_v4(packet->source, ip->saddr);
		from_v4(packet->destination, ip->daddr);
		packet->reserved =
			!!(ip->frag_off & bpf_htons(IP_DONT_FRAGMENT));
		return parse_v4(ctx, packet);
	}
}

/* TTL or hop limit. */
static __always_inline __u32 nat_ttl(struct xdp_md *ctx,
				     const struct packet *packet)
{
	const __u8 *ttl = at(ctx, packet->l3 + (packet->v6 ? 7 : 8), 1);

	return ttl ? *ttl : 0;
}

/* An existing flow, ready for use; NO_FLOW: begin a new one. */
__noinline __s64 nat_known(struct xdp_md *ctx, const struct packet *packet,
			   __u32 line)
{
	struct block_view view;
	struct nat_work *work;
	struct nat_flow *flow;
	__u32 state;
	__s64 number;
	bool again;

	if (!packet || !find_block(line, &view))
		return NO_FLOW;
	number = nat_find(packet);
	if (number == NO_FLOW)
		return NO_FLOW;
	flow = nat_flow_at(number);
	if (!flow)
		return NO_FLOW;
	state = READ_ONCE(flow->state);
	again = nat_state_of(state) == NAT_TIME_WAIT && packet->opens_flow;
	if (nat_state_of(state) == NAT_TIME_WAIT && !again &&
	    nat_may_ask_peers() && nat_may_be_earlier(ctx, packet, number))
		return NO_FLOW;
	if (flow->service == view.block->service && !again &&
	    nat_keeps(&view, flow, MEMBER_KEEPS_FLOWS))
		return number;
	if (!writes_nat)
		return NO_FLOW;
	again &= flow->service == view.block->service &&
		 nat_keeps(&view, flow, MEMBER_TAKES_FLOWS);
	if (again && !nat_reserve(line, true))
		return NO_FLOW;
	if (!nat_claim(number, state)) {
		if (again)
			nat_release(line);
		return NO_FLOW;
	}
	/* reuse the ports */
	if (again &&
	    nat_fill(packet, number, line, flow->member_index, flow->entropy) &&
	    nat_open(ctx, number)) {
		work = nat_work_in_hand();
		if (work)
			work->begins = true;
		return number;
	}
	nat_free(number);
	if (again)
		nat_release(line);
	return NO_FLOW;
}

/* The slot's member or SLOT_NOBODY; the flow's entropy is in the upper half. */
__noinline __u64 nat_select(const struct packet *packet, __u32 line)
{
	struct block_view view;
	__u32 both, member;
	__u64 hash;

	if (!packet || !find_block(line, &view))
		return SLOT_NOBODY;
	both = (__u32)packet->source_port << 16 | packet->destination_port;
	if (packet->v6)
		hash = flow_hash_v6(packet->source, packet->destination, both,
				    packet->protocol);
	else
		hash = flow_hash_v4(packet->source[3], packet->destination[3],
				    both, packet->protocol);
	member = owner_of_slot(&view, flow_slot(hash, view.block->slots));
	if (member >= view.block->members)
		return SLOT_NOBODY;
	return member | (__u64)flow_entropy(hash) << 32;
}

/* The flow of the packet that an error quotes; *ports gets the offset of the
 * quoted ports. `packet` is the error itself. */
__noinline __s64 nat_follow_quote(struct xdp_md *ctx,
				  const struct packet *packet, __u32 to_pool,
				  __u32 *ports)
{
	struct packet quote = {};
	const struct nat_flow *flow;
	__u32 number;

	if (!packet || !ports)
		return NO_FLOW;
	quote.l3 = packet->l4 + ICMP_HEADER;
	quote.end = packet->end;
	quote.v6 = packet->v6;
	/* turn it into a packet of the other end */
	if (flow_of_quote(ctx, &quote) ||
	    !same_words(quote.destination, packet->destination))
		return NO_FLOW;
	*ports = quote.l4;
	if (!(to_pool & NAT_TO_POOL))
		return nat_find(&quote);
	number = to_pool << 16 | bpf_ntohs(quote.destination_port);
	flow = nat_flow_at(number);
	return flow && nat_is_from(&quote, flow) ? number : NO_FLOW;
}

/* The line of a service's block; 0: none. */
static __always_inline __u32 nat_line_of(const struct nat_flow *flow)
{
	__s64 line;

	if (nat_is_v4(flow->vip))
		line = find_v4(flow->vip[3], flow->port, flow->protocol);
	else
		line = find_v6(flow->vip, flow->port, flow->protocol);
	return line == NOT_FOUND ? 0 : line;
}

/* For a client's packet with ports. */
static __always_inline int
nat_look_at_request(struct xdp_md *ctx, struct nat_work *work, __u32 line)
{
	int outcome = OXP_DROP_MARTIAN;
	__s64 number;

	work->line = line;
	if (!is_martian(&work->packet))
		outcome = admit(&work->packet, line);
	if (outcome == OXP_FORWARDED && nat_ttl(ctx, &work->packet) <= 1)
		outcome = OXP_DROP_TTL;
	if (outcome != OXP_FORWARDED)
		return nat_end(work, drop_at(ctx, outcome, line));
	number = nat_known(ctx, &work->packet, line);
	if (number == NO_FLOW)
		return NAT_UNKNOWN;
	work->number = number;
	return NAT_GO_ON;
}

/* For a member's packet, an error or a later fragment: these need a flow. */
static __always_inline int nat_look_at_known(struct xdp_md *ctx,
					     struct nat_work *work,
					     __s64 number, __u32 otherwise)
{
	if (number == NO_FLOW)
		return nat_end(work, drop(ctx, is_martian(&work->packet)
						       ? OXP_DROP_MARTIAN
						       : otherwise));
	work->number = number;
	if (is_martian(&work->packet))
		return nat_drop(work, OXP_DROP_MARTIAN);
	if (nat_ttl(ctx, &work->packet) <= 1)
		return nat_drop(work, OXP_DROP_TTL);
	return NAT_GO_ON;
}

static __always_inline int
nat_look_at_reply(struct xdp_md *ctx, struct nat_work *work, __u32 to_pool)
{
	__u32 number = to_pool << 16 | bpf_ntohs(work->packet.destination_port);
	const struct nat_flow *flow = nat_flow_at(number);
	bool known = flow && nat_is_from(&work->packet, flow);

	return nat_look_at_known(ctx, work, known ? number : NO_FLOW,
				 OXP_DROP_NO_NAT_FLOW);
}

static __always_inline int
nat_look_at_icmp(struct xdp_md *ctx, struct nat_work *work, __u32 to_pool)
{
	const struct packet *packet = &work->packet;
	const __u8 *type;
	__s64 number;

	if (packet->kind != KIND_WHOLE ||
	    (packet->protocol == IPPROTO_ICMPV6) != packet->v6)
		return nat_end(work, XDP_PASS);
	type = in_packet(ctx, packet, packet->l4, ICMP_HEADER);
	if (!type)
		return nat_end(work, drop_unread(ctx));
	if (is_echo(*type, packet->v6))
		return nat_end(work, answer_echo(ctx, packet));
	if (!is_icmp_error(*type, packet->v6))
		return nat_end(work, XDP_PASS);
	work->what |= NAT_ERROR;
	number = nat_follow_quote(ctx, packet, to_pool, &work->error.ports);
	if (number == NO_FLOW && !(to_pool & NAT_TO_POOL) &&
	    !is_martian(packet))
		return NAT_UNKNOWN;
	return nat_look_at_known(ctx, work, number, OXP_DROP_ICMP);
}

static __always_inline int
nat_look_at_later(struct xdp_md *ctx, struct nat_work *work, __u32 to_pool)
{
	__s64 number = nat_follow_fragment(&work->packet);

	if (number == NO_FLOW && !(to_pool & NAT_TO_POOL) &&
	    !work->handed.kind && nat_peers_of_node() &&
	    !is_martian(&work->packet) &&
	    nat_follow_to_peer(&work->packet, &work->packet.source_port) !=
		    NO_PEER)
		return NAT_UNKNOWN;
	return nat_look_at_known(ctx, work, number, OXP_DROP_FRAGMENT);
}

/* The first stage: finds the flow. */
__noinline int nat_look(struct xdp_md *ctx, __u32 l3, __u32 v6, __u32 line)
{
	struct nat_work *work = nat_work_in_hand();
	struct packet *packet;

	if (!work)
		return NAT_DONE;
	__builtin_memset(work, 0, offsetof(struct nat_work, handed));
	packet = &work->packet;
	packet->l3 = l3;
	packet->v6 = !!v6;
	work->frame = frame_length(ctx);
	if (line & NAT_TO_POOL)
		work->what = NAT_TO_CLIENT;
	if (nat_parse(ctx, packet))
		return nat_end(work, drop_unread(ctx));
	if (packet->protocol == IPPROTO_ICMP ||
	    packet->protocol == IPPROTO_ICMPV6)
		return nat_look_at_icmp(ctx, work, line);
	if (packet->kind == KIND_LATER)
		return nat_look_at_later(ctx, work, line);
	if (packet->protocol == IPPROTO_GRE && line & NAT_TO_POOL)
		return nat_unwrap(ctx, work);
	if (packet->protocol != IPPROTO_TCP && packet->protocol != IPPROTO_UDP)
		return nat_end(work, XDP_PASS);
	if (parse_l4(ctx, packet))
		return nat_end(work, drop_unread(ctx));
	if (line & NAT_TO_POOL)
		return nat_look_at_reply(ctx, work, line);
	if (work->handed.kind) {
		line = nat_line_inside(packet);
		/* its service was removed from this node, or is yet to come */
		if (!line)
			return NAT_UNKNOWN;
	}
	return nat_look_at_request(ctx, work, line);
}

/* The second stage, for a packet without a flow. */
static __always_inline int nat_begin(struct xdp_md *ctx)
{
	struct nat_work *work = nat_work_in_hand();
	__u32 outcome = OXP_DROP_NAT_FULL, line;
	__s64 number = NO_FLOW;
	__u64 selected;

	if (!work)
		return NAT_DONE;
	line = work->line;
	if (work->what & NAT_ERROR)
		return nat_end(work, drop(ctx, OXP_DROP_ICMP));
	if (!line)
		return nat_drop_peer(work);
	if (work->packet.protocol == IPPROTO_TCP && !work->packet.opens_flow)
		return nat_reset(ctx);
	/* in a simulation: the node would choose another port */
	if (!writes_nat)
		return nat_end(work, drop_at(ctx, OXP_DROP_NO_NAT_FLOW, line));
	if (!nat_reserve(line, work->packet.opens_flow))
		return nat_end(work, refuse_connection(ctx, work->packet.l3,
						       work->packet.l4,
						       work->packet.v6, line));
	selected = nat_select(&work->packet, line);
	if ((__u32)selected == SLOT_NOBODY)
		outcome = OXP_DROP_NO_MEMBER;
	else
		number = nat_allocate(ctx, line, selected);
	if (number == NO_FLOW ||
	    !nat_fill(&work->packet, number, line, selected, selected >> 32)) {
		if (number != NO_FLOW)
			nat_free(number);
		nat_release(line);
		return nat_end(work, drop_at(ctx, outcome, line));
	}
	nat_open(ctx, number);
	work->number = number;
	work->begins = work->packet.opens_flow;
	return NAT_GO_ON;
}

static __always_inline void nat_find_line(struct nat_work *work,
					  const struct nat_flow *flow)
{
	if (!(work->what & NAT_TO_CLIENT) && !work->line)
		work->line = nat_line_of(flow);
}

/* The third stage: finds the exit and whether the packet fits. */
__noinline int nat_leave(struct xdp_md *ctx)
{
	struct nat_work *work = nat_work_in_hand();
	const struct nat_flow *flow;
	struct nat_exit *exit;
	__u32 mtu, length;
	int outcome;

	if (!work)
		return NAT_DONE;
	exit = &work->exit;
	flow = nat_flow_at(work->number);
	if (!flow)
		return nat_drop(work, OXP_DROP_INTERNAL);
	nat_find_line(work, flow);
	if (nat_leaves_v6(flow, work->what))
		work->what |= NAT_OUT_V6;
	if (!work->packet.v6 && work->what & NAT_OUT_V6 &&
	    nat_is_routed(ctx, &work->packet))
		return nat_drop(work, OXP_DROP_NAT_UNTRANSLATABLE);
	if (work->packet.v6 && !(work->what & NAT_OUT_V6) &&
	    nat_is_extended(&work->packet))
		return nat_drop(work, OXP_DROP_NAT_UNTRANSLATABLE);
	exit->more =
		nat_difference(&work->packet, work->what, work->error.ports);
	/* padding after the packet is sent along */
	length = work->frame - work->packet.l3 + exit->more;
	outcome = nat_find_exit(ctx, flow, work->number, work->what, length,
				exit);
	if (outcome != OXP_FORWARDED)
		return nat_drop(work, outcome);
	mtu = nat_member_mtu(flow, work->line);
	if (mtu && mtu < exit->mtu)
		exit->mtu = mtu;
	return length > exit->mtu ? NAT_UNKNOWN : NAT_GO_ON;
}

/* Replaces the other stages for a packet that is too big. */
static __always_inline int nat_refuse(struct xdp_md *ctx)
{
	struct nat_work *work = nat_work_in_hand();
	const struct nat_flow *flow;
	int limit;

	if (!work)
		return NAT_DONE;
	limit = (int)work->exit.mtu - work->exit.more;
	work->action = nat_too_big(ctx, &work->packet, work->what, limit);
	flow = nat_flow_at(work->number);
	if (work->action == XDP_DROP && flow)
		count_drop(flow->service);
	return NAT_DONE;
}

/* The fourth stage: everything to be done before the packet is changed. */
__noinline int nat_prepare(struct xdp_md *ctx)
{
	struct nat_work *work = nat_work_in_hand();

	if (!work)
		return NAT_DONE;
	/* clients' packets may have to go to another node first */
	nat_clamp(ctx, &work->packet, work->what, work->exit.mtu,
		  work->what & NAT_TO_CLIENT ? nat_peers_overhead() : 0);
	work->action = XDP_TX;
	if (work->exit.ifindex != ctx->ingress_ifindex) {
		/* the kernel would drop it without a counter */
		if (work->frame > first_length(ctx) &&
		    !sends_buffers(work->exit.ifindex))
			return nat_drop(work, OXP_DROP_MULTI_BUFFER);
		work->action = bpf_redirect_map(&devices, work->exit.ifindex,
						XDP_DROP);
		if (work->action != XDP_REDIRECT)
			return nat_drop(work, OXP_DROP_NO_NEXT_HOP);
	}
	if (work->packet.kind == KIND_FIRST)
		nat_remember_fragment(&work->packet, work->number);
	if (!(work->what & NAT_ERROR) &&
	    !nat_touch(ctx, &work->packet, work->number,
		       work->what & NAT_TO_CLIENT))
		return nat_drop(work, OXP_DROP_CONNECTION_LIMIT);
	return NAT_GO_ON;
}

static __always_inline int nat_rewrite_error(struct xdp_md *ctx,
					     struct nat_work *work, bool same)
{
	__u32 what = work->what | work->exit.link_length << NAT_LINK_SHIFT;
	const struct nat_flow *flow;
	int outcome;

	if (same)
		return nat_correct_error(ctx, &work->packet, work->number, what,
					 work->error.ports);
	flow = nat_flow_at(work->number);
	if (!flow)
		return OXP_DROP_INTERNAL;
	work->error.quote.protocol = flow->protocol;
	outcome = nat_read_error(ctx, &work->packet, what, &work->error);
	if (outcome != OXP_FORWARDED)
		return outcome;
	return nat_translate_error(ctx, &work->packet, work->number, what,
				   &work->error);
}

/* Returns the outcome. The frame then starts with room for the link header. */
__noinline int nat_rewrite(struct xdp_md *ctx)
{
	struct nat_work *work = nat_work_in_hand();
	int outcome = OXP_FORWARDED;
	struct packet *packet;
	bool same;

	if (!work)
		return OXP_DROP_INTERNAL;
	packet = &work->packet;
	same = !!packet->v6 == !!(work->what & NAT_OUT_V6);
	if (work->what & NAT_ERROR)
		return nat_rewrite_error(ctx, work, same);
	if (packet->kind != KIND_LATER)
		outcome = nat_rewrite_transport(ctx, packet, work->number,
						work->what);
	if (outcome != OXP_FORWARDED)
		return outcome;
	if (same)
		return nat_correct_header(ctx, packet, work->number, work->what,
					  work->exit.link_length);
	return nat_replace_header(ctx, packet, work->number, work->what,
				  work->exit.link_length);
}

/* The last stage. */
__noinline int nat_finish(struct xdp_md *ctx, __u32 outcome)
{
	struct nat_work *work = nat_work_in_hand();
	const struct nat_flow *flow;
	__u32 length;

	if (!work)
		return NAT_DONE;
	if (outcome != OXP_FORWARDED)
		return nat_drop(work, outcome);
	flow = nat_flow_at(work->number);
	if (!flow || !nat_put_link(ctx, &work->exit))
		return nat_drop(work, OXP_DROP_INTERNAL);
	RECORD(SERVICE, flow->service);
	if (!(work->what & NAT_TO_CLIENT))
		RECORD(MEMBER, flow->member_index);
	length = work->packet.end - work->packet.l3;
	if (work->what & NAT_TO_CLIENT)
		nat_count_reply(flow->service, length + work->exit.more);
	else
		nat_count_request(work->line, flow, length, work->begins);
	return NAT_DONE;
}

static __always_inline int nat_look_first(struct xdp_md *ctx, __u32 l3,
					  __u32 v6, __u32 line)
{
	struct nat_work *work = nat_work_in_hand();

	if (!work)
		return NAT_DONE;
	__builtin_memset(&work->handed, 0, sizeof(work->handed));
	return nat_look(ctx, l3, v6, line);
}

/* For the inner packet, as if it had come by itself, except that the kernel
 * never gets it. */
static __always_inline int nat_look_inside(struct xdp_md *ctx, __u32 l3)
{
	struct nat_work *work = nat_work_in_hand();
	int stage;

	if (!work)
		return NAT_DONE;
	/* pull in as many headers as for a packet without outer headers */
	pull_headers(ctx);
	stage = nat_look(ctx, l3, work->handed.v6, 0);
	if (stage == NAT_DONE && work->action == XDP_PASS)
		return nat_drop_peer(work);
	return stage;
}

static __always_inline bool nat_is_sought(void)
{
	const struct nat_work *work = nat_work_in_hand();

	return work && work->handed.kind == NAT_SEEK &&
	       !(work->what & NAT_ERROR);
}

static __always_inline int nat_action(void)
{
	const struct nat_work *work = nat_work_in_hand();

	return work ? work->action : XDP_DROP;
}

/* Takes the packet at l3. `line` is that of its service's block, or a pool's
 * address with NAT_TO_POOL; 0: an ICMP error or a later fragment to a VIP.
 * Returns the XDP action. */
__noinline int nat_take(struct xdp_md *ctx, __u32 l3, __u32 v6, __u32 line)
{
	int stage = nat_look_first(ctx, l3, v6, line);

	RECORD(NAT);
	if (stage == NAT_INSIDE)
		stage = nat_look_inside(ctx, l3);
	if (stage == NAT_GO_ON && nat_is_sought())
		stage = nat_tell_owner(ctx);
	if (stage == NAT_UNKNOWN)
		stage = nat_hand_on(ctx);
	if (stage == NAT_UNKNOWN)
		stage = nat_begin(ctx);
	if (stage == NAT_GO_ON)
		stage = nat_leave(ctx);
	if (stage == NAT_UNKNOWN)
		stage = nat_refuse(ctx);
	if (stage == NAT_GO_ON)
		stage = nat_prepare(ctx);
	if (stage == NAT_GO_ON)
		nat_finish(ctx, nat_rewrite(ctx));
	return nat_action();
}

#endif
