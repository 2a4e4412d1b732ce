/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP packets of connections unknown to all nodes, such as those of a failed
 * node: this node resets them itself. Sending them to a member is no option:
 * the packet might get a port of a connection that the member still has from
 * before the failure, and its reply would not be acceptable to the client.
 */
#ifndef OXP_NAT_RESET_H
#define OXP_NAT_RESET_H

#include "forward/nat/peers.h"
#include "forward/nat/state.h"
#include "forward/reset.h"

/* Whether a reset can answer the packet, which does not open a flow. */
static __always_inline bool nat_is_answered(struct xdp_md *ctx,
					    const struct packet *packet)
{
	__u32 flags = nat_tcp_flags(ctx, packet);

	return flags & TCP_ACK && !(flags & TCP_RST) &&
	       is_answerable(ctx, packet->l3, packet->l4, packet->v6);
}

/* Finds the exit from the packet's destination to its source. */
static __always_inline bool nat_exit_back(struct xdp_md *ctx,
					  struct nat_work *work)
{
	const struct packet *packet = &work->packet;

	__builtin_memcpy(work->handed.origin, packet->destination,
			 sizeof(work->handed.origin));
	__builtin_memcpy(work->target, packet->source, sizeof(work->target));
	return nat_exit_to_peer(ctx, (__u32)packet->source_port << 16);
}

/* Gives the frame, which contains the reset, its final form. */
static __always_inline bool nat_wrap_reset(struct xdp_md *ctx,
					   struct nat_work *work)
{
	__u32 end = work->packet.l3 + (work->packet.v6 ? 60 : 40);

	return !bpf_xdp_adjust_tail(ctx, (int)(end - frame_length(ctx))) &&
	       !bpf_xdp_adjust_head(
		       ctx, (int)(work->packet.l3 - work->exit.link_length)) &&
	       nat_put_link(ctx, &work->exit);
}

__noinline int nat_reset(struct xdp_md *ctx)
{
	struct nat_work *work = nat_work_in_hand();

	if (!work)
		return NAT_DONE;
	if (!nat_is_answered(ctx, &work->packet))
		return nat_drop_unknown(work, OXP_DROP_NO_NAT_FLOW);
	if (!nat_exit_back(ctx, work))
		return nat_drop_unknown(work, OXP_DROP_NO_NEXT_HOP);
	if (!may_answer(ANSWER_RESET, answered(&work->packet)) ||
	    !answer_reset(ctx, work->packet.l3, work->packet.l4,
			  work->packet.v6))
		return nat_drop_unknown(work, OXP_DROP_NO_NAT_FLOW);
	work->action = XDP_TX;
	if (work->exit.ifindex != ctx->ingress_ifindex)
		work->action = bpf_redirect_map(&devices, work->exit.ifindex,
						XDP_DROP);
	if (work->action == XDP_DROP)
		return nat_drop_unknown(work, OXP_DROP_NO_NEXT_HOP);
	if (!nat_wrap_reset(ctx, work))
		return nat_drop_unknown(work, OXP_DROP_INTERNAL);
	count_bytes(OXP_SENT_RESET, work->frame);
	return NAT_DONE;
}

#endif
