/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sending: uplink, MTU, outer header, link header, counters. Functions return
 * the XDP action. */
#ifndef OXP_SEND_H
#define OXP_SEND_H

#include "forward/block.h"
#include "forward/buffers.h"
#include "forward/count.h"
#include "forward/drop.h"
#include "forward/dscp.h"
#include "forward/mss.h"
#include "forward/ports.h"
#include "forward/record.h"
#include "forward/record_slot.h"
#include "forward/route.h"
#include "forward/selected.h"
#include "forward/too_big.h"
#include "forward/watch.h"
#include "verifier.h"

/* Writes the uplink's link header over the frame's. Returns its end, where the
 * outer header will be. */
static __always_inline void *push_link(struct xdp_md *ctx, __u64 length,
				       const __u8 *link)
{
	__u64 *start = frame_start(ctx);
	const __u64 *word = (const __u64 *)link;

	if ((void *)(start + 3) > frame_end(ctx))
		return NULL;
	/* More than the link header; the rest is written later. */
	start[0] = word[0];
	start[1] = word[1];
	start[2] = word[2];
	/* re-mask: the verifier loses the bound after the comparison */
	_Static_assert(LINK_MAX < 32, "the mask");
	MASK(length, 31);
	return (void *)start + length;
}

static __always_inline int encapsulate(struct xdp_md *ctx,
				       const struct selected *selected,
				       const struct member_head *member,
				       __u32 outer_type, __u32 header,
				       const __u8 *link, __u64 link_length)
{
	void *outer, *end;

	if (bpf_xdp_adjust_head(ctx,
				(int)(selected->l3 - link_length - header)))
		return OXP_DROP_NO_HEADROOM;
	outer = push_link(ctx, link_length, link);
	if (!outer)
		return OXP_DROP_INTERNAL;
	end = frame_end(ctx);
	if (is_outer_v6(outer_type)) {
		if (outer + 40 + SHIM_MAX > end)
			return OXP_DROP_INTERNAL;
		push_v6(outer, selected->head, outer_type, header,
			selected->entropy, &config, member->outer,
			selected->v6);
		outer += 40;
	} else {
		if (outer + 20 + SHIM_MAX > end)
			return OXP_DROP_INTERNAL;
		push_v4(outer, selected->head, outer_type, header,
			outer_source(config.source_v4, config.entropy_v4,
				     selected->entropy),
			member->outer[3], selected->v6);
		outer += 20;
	}
	push_shim(outer, outer_type, head_length(selected->head),
		  selected->entropy, member->key, selected->v6);
	return OXP_FORWARDED;
}

/* NULL: the packet names no alternative. */
static __always_inline const struct member_head *
named_by(const struct block_view *view, const struct selected *selected)
{
	__u32 index = selected->alternative - 1;

	if (!selected->alternative || index >= view->block->members)
		return NULL;
	return member_of(view, index);
}

/* Completes encapsulate() for a packet that the alternative makes longer. */
static __always_inline int
name_alternative(struct xdp_md *ctx, const struct selected *selected,
		 const struct member_head *alternative, __u32 outer_type,
		 __u64 outer)
{
	__u64 shim = outer + (is_outer_v6(outer_type) ? 40 : 20);
	void *to;

	if (is_kind(outer_type, OUTER_IPIP_V4)) {
		to = at(ctx, outer + offsetof(struct ipv6hdr, nexthdr), 1);
		if (!to)
			return OXP_DROP_INTERNAL;
		*(__u8 *)to = IPPROTO_ROUTING;
	} else if (is_kind(outer_type, OUTER_GENEVE_V4)) {
		to = at(ctx, shim, SHIM_MAX);
		if (!to)
			return OXP_DROP_INTERNAL;
		push_options_length(to, alternative_length(outer_type));
	}
	to = at(ctx, shim + shim_length(outer_type), OXP_ALTERNATIVE_V6);
	if (!to)
		return OXP_DROP_INTERNAL;
	push_alternative(to, outer_type, alternative->outer, alternative->key,
			 outer_protocol(OUTER_IPIP_V4, selected->v6));
	return OXP_FORWARDED;
}

/* encapsulate() with an alternative; separate because of the stack. */
__noinline int encapsulate_named(struct xdp_md *ctx, struct selected *selected,
				 const struct uplink *uplink)
{
	const struct member_head *member, *alternative;
	__u32 outer_type, more;
	struct block_view view;
	__u64 link_length, head;
	int outcome;

	if (!selected || !uplink || !find_block(selected->block, &view) ||
	    selected->member >= view.block->members)
		return OXP_DROP_INTERNAL;
	member = member_of(&view, selected->member);
	alternative = named_by(&view, selected);
	link_length = uplink->link_length;
	if (!alternative || link_length > LINK_MAX)
		return OXP_DROP_INTERNAL;
	outer_type = without_port(member->outer_type);
	more = alternative_length(outer_type);
	head = selected->head;
	selected->l3 -= more;
	selected->head = (head & ~HEAD_LENGTH) |
			 (__u64)bpf_htons(head_length(head) + more)
				 << HEAD_LENGTH_SHIFT;
	outcome =
		encapsulate(ctx, selected, member, outer_type,
			    outer_header_length(outer_type),
			    uplink->link[is_outer_v6(outer_type)], link_length);
	selected->l3 += more;
	selected->head = head;
	if (outcome != OXP_FORWARDED)
		return outcome;
	return name_alternative(ctx, selected, alternative, outer_type,
				link_length);
}

/* Replaces the link header alone. */
static __always_inline int replace_link(struct xdp_md *ctx,
					const struct selected *selected,
					const __u8 *link, __u32 link_length)
{
	__u16 *to;

	if (bpf_xdp_adjust_head(ctx, (int)(selected->l3 - link_length)))
		return OXP_DROP_NO_HEADROOM;
	to = at(ctx, 0, LINK_MAX);
	if (!to)
		return OXP_DROP_INTERNAL;
	for (__u32 i = 0; i < LINK_MAX / 2; i++)
		if (2 * i < link_length)
			to[i] = ((const __u16 *)link)[i];
	return OXP_FORWARDED;
}

static __always_inline int refuse(struct xdp_md *ctx,
				  const struct selected *selected,
				  const struct block_view *view, __u32 limit,
				  const bool fast_path)
{
	__u32 what = selected->v6 ? TOO_BIG_V6 : 0;
	int action;

	if (selected->kind == KIND_LATER)
		what |= TOO_BIG_SILENT;
	if (selected->kind == KIND_QUOTED)
		what |= TOO_BIG_QUOTED;
	if (fast_path)
		return too_big_plain(ctx, selected->l3, limit, what);
	action = too_big(ctx, selected->l3, limit, what);
	if (action == XDP_DROP)
		count_drop(view->block->service);
	return action;
}

static __always_inline int drop_sent(struct xdp_md *ctx, __u32 outcome,
				     const struct block_view *view,
				     const bool fast_path)
{
	return fast_path ? drop_plain(ctx, outcome)
			 : drop_of(ctx, outcome, view->block->service);
}

static __always_inline __u32 path_mtu(const struct member_head *member,
				      __u32 mtu)
{
	return member->mtu && member->mtu < mtu ? member->mtu : mtu;
}

/* Sends by the uplink. The fast path has no code for DSCP, ports and
 * alternatives. */
static __always_inline int
send_by(struct xdp_md *ctx, struct selected *selected,
	const struct block_view *view, const struct member_head *member,
	const struct member_head *alternative, const struct uplink *uplink,
	__u64 link_length, __u32 length, bool outer_v6, __u32 amid_flow,
	const bool fast_path)
{
	__u32 outer_type = fast_path ? member->outer_type
				     : without_port(member->outer_type);
	__u32 outer = fast_path ? outer_header_length(outer_type)
				: outer_length(outer_type);
	__u32 header = outer + member->alternative;
	__u32 mtu = path_mtu(member, uplink->mtu);
	const __u8 *link = uplink->link[outer_v6];
	__u32 ifindex = uplink->ifindex;
	int outcome, action = XDP_TX;

	if (!fast_path && alternative)
		mtu = path_mtu(alternative, mtu);
	if (!fast_path)
		RECORD(SIZE, length - selected->l3, header, mtu);
	/* padding after the packet is sent along */
	if (unlikely(length - selected->l3 + header > mtu))
		return refuse(ctx, selected, view,
			      mtu > header ? mtu - header : 0, fast_path);
	if (unlikely(!amid_flow) && config.flags & OXP_NODE_CLAMP_MSS &&
	    selected->protocol == IPPROTO_TCP) {
		__u32 end = selected->l3 + head_length(selected->head);
		__u32 mss = mtu - header - (selected->v6 ? 60 : 40);

		if (fast_path)
			clamp_first_mss(ctx, plain_l4_of(selected), end, mss);
		else
			clamp_mss(ctx, selected->l4, end, mss);
	}
	/* before the frame changes: drops count its original length */
	if (unlikely(ifindex != ctx->ingress_ifindex)) {
		/* the kernel would drop it without a counter */
		if (!fast_path && length > first_length(ctx) &&
		    !sends_buffers(ifindex))
			return drop_of(ctx, OXP_DROP_MULTI_BUFFER,
				       view->block->service);
		action = bpf_redirect_map(&devices, ifindex, XDP_DROP);
		if (action != XDP_REDIRECT)
			return drop_sent(ctx, OXP_DROP_NO_NEXT_HOP, view,
					 fast_path);
	}
	if (!fast_path && member->outer_type & OUTER_PORT &&
	    rewrite_port(ctx, selected))
		return drop_sent(ctx, OXP_DROP_INTERNAL, view, fast_path);
	if (!fast_path && outer_type == OUTER_NONE) {
		if (rewrite(ctx, selected))
			return drop_sent(ctx, OXP_DROP_INTERNAL, view,
					 fast_path);
		outcome = replace_link(ctx, selected, link, link_length);
	} else if (!fast_path && alternative) {
		outcome = encapsulate_named(ctx, selected, uplink);
	} else {
		outcome = encapsulate(
			ctx, selected, member, outer_type,
			fast_path ? outer : outer_header_length(outer_type),
			link, link_length);
	}
	/* NO_HEADROOM leaves the frame unchanged. INTERNAL is for the verifier:
	 * the bytes checked exceed the link header. */
	if (unlikely(outcome != OXP_FORWARDED))
		return drop_sent(ctx, outcome, view, fast_path);
	if (unlikely(config.usual_slots) && amid_flow) {
		count_later(view->block->service, member->counter,
			    head_length(selected->head));
		return action;
	}
	count_forwarded(view->block->service, member->counter,
			head_length(selected->head), !amid_flow);
	return action;
}

static __always_inline const struct uplink *choose_uplink(__u32 entropy,
							  bool outer_v6)
{
	__u32 active = READ_ONCE(config.active_uplinks) & 1, choice;
	const struct uplink_set *set;

	set = bpf_map_lookup_elem(&uplinks, &active);
	if (!set)
		return NULL;
	choice = set->choice[outer_v6][choice_of(entropy)];
	if (unlikely(choice >= OXP_UPLINKS_MAX))
		return NULL;
	return &set->uplink[choice];
}

/* Out of line, for the slow path, DSCP, ports, alternatives, OXP_NODE_FIB,
 * watched flows and simulations. The frame has `length` bytes. */
__noinline int deliver(struct xdp_md *ctx, struct selected *selected,
		       __u32 length)
{
	const struct member_head *member, *alternative;
	struct block_view view;
	const struct uplink *uplink;
	struct uplink routed = {};
	__u32 outer_type;
	bool outer_v6;
	int status;

	if (!selected || !find_block(selected->block, &view) ||
	    selected->member >= view.block->members)
		return drop(ctx, OXP_DROP_INTERNAL);
	member = member_of(&view, selected->member);
	alternative = named_by(&view, selected);
	/* the constant is read once for all of this */
	if (unlikely(records)) {
		RECORD(SERVICE, view.block->service);
		if (selected->kind == KIND_WHOLE &&
		    !(view.block->flags & OXP_SERVICE_QUIC))
			record_plain_slot(ctx, selected->block);
		RECORD(MEMBER, selected->member);
		if (alternative)
			RECORD(ALTERNATIVE, selected->alternative - 1);
	}
	outer_type = without_port(member->outer_type);
	if (outer_type != OUTER_NONE && !has_outer_header(outer_type))
		return drop_of(ctx, OXP_DROP_INTERNAL, view.block->service);
	outer_v6 = is_outer_v6_of(selected, outer_type);
	if (outer_type != OUTER_NONE && !has_source(&config, outer_v6)) {
		RECORD(NO_SOURCE, outer_v6);
		return drop_of(ctx, OXP_DROP_NO_NEXT_HOP, view.block->service);
	}
	if (feature_fib && config.flags & OXP_NODE_FIB) {
		RECORD(ROUTES);
		status = find_route(ctx, selected, &routed,
				    length - selected->l3 +
					    outer_length(outer_type) +
					    member->alternative);
		/* with only the MTU, send_by() finds the packet too big */
		if (status != BPF_FIB_LKUP_RET_SUCCESS &&
		    status != BPF_FIB_LKUP_RET_FRAG_NEEDED)
			return drop_of(ctx, OXP_DROP_NO_NEXT_HOP,
				       view.block->service);
		routed.watched =
			config.watched >> choice_of(selected->entropy) & 1;
		uplink = &routed;
	} else {
		uplink = choose_uplink(selected->entropy, outer_v6);
		RECORD(UPLINK, uplink ? uplink->ifindex : 0, outer_v6,
		       choice_of(selected->entropy));
		if (!uplink)
			return drop_of(ctx, OXP_DROP_NO_NEXT_HOP,
				       view.block->service);
	}
	if (uplink->link_length > LINK_MAX)
		return drop_of(ctx, OXP_DROP_INTERNAL, view.block->service);
	if (uplink->watched)
		watch(ctx, selected, view.block->service, view.block->watch);
	return send_by(ctx, selected, &view, member, alternative, uplink,
		       uplink->link_length, length, outer_v6,
		       selected->amid_flow, false);
}

/* Length of the link header; greater than LINK_MAX for an uplink with watched
 * flows. In 64 bits, as older kernels lose the bounds of narrower copies. */
static __always_inline __u64 plain_length(const struct uplink *uplink)
{
	__u64 length;

	_Static_assert(offsetof(struct uplink, watched) ==
			       offsetof(struct uplink, link_length) + 1,
		       "one number");
	length = *(const __u16 *)&uplink->link_length;
	/* read once: the value that is compared must be the one that is used */
	barrier_var(length);
	return length;
}

/* For the fast path, which has found the whole packet in the first buffer. */
static __always_inline int deliver_plain(struct xdp_md *ctx,
					 const struct selected *selected)
{
	struct selected copy = *selected;

	copy.l4 = plain_l4_of(selected);
	return deliver(ctx, &copy, first_length(ctx));
}

static __always_inline int send(struct xdp_md *ctx, struct selected *selected,
				const struct block_view *view,
				const struct member_head *member,
				__u32 amid_flow)
{
	__u32 outer_type = member->outer_type;
	const struct uplink *uplink;
	__u64 link_length;
	bool outer_v6;

	/* By multiplication, as a branch for simulations would change the code
	 * of the fast path. */
	if (unlikely(!has_outer_header(outer_type) ||
		     (feature_fib &&
		      (READ_ONCE(config.flags) | records * OXP_NODE_FIB) &
			      OXP_NODE_FIB)))
		return deliver_plain(ctx, selected);
	outer_v6 = is_outer_v6(outer_type);
	uplink = choose_uplink(selected->entropy, outer_v6);
	if (unlikely(!uplink))
		return drop_plain(ctx, OXP_DROP_NO_NEXT_HOP);
	if (unlikely(!has_source(&config, outer_v6)))
		return drop_plain(ctx, OXP_DROP_NO_NEXT_HOP);
	link_length = plain_length(uplink);
	if (unlikely(link_length > LINK_MAX))
		return deliver_plain(ctx, selected);
	return send_by(ctx, selected, view, member, NULL, uplink, link_length,
		       first_length(ctx), outer_v6, amid_flow, true);
}

#endif
