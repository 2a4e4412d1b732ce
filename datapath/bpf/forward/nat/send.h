/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The exit of a rewritten packet, whether it fits, and its counters. */
#ifndef OXP_NAT_SEND_H
#define OXP_NAT_SEND_H

#include "forward/mss.h"
#include "forward/nat/ends.h"
#include "forward/send.h"

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

/* How a packet leaves. Without holes. */
struct nat_exit {
	__u32 ifindex;
	__u32 mtu;
	__u32 link_length;
	int more; /* bytes by which the packet grows, may be negative */
	__u8 link[24];
};

/* Bytes by which rewriting makes the packet longer. */
static __always_inline int nat_difference(const struct packet *packet,
					  __u32 what, __u32 ports)
{
	bool fragment =
		packet->kind == KIND_FIRST || packet->kind == KIND_LATER;
	int header = what & NAT_OUT_V6 ? sizeof(struct ipv6hdr)
				       : sizeof(struct iphdr);

	if (!!packet->v6 == !!(what & NAT_OUT_V6))
		return 0;
	if (what & NAT_ERROR)
		return 2 * header + ICMP_HEADER - (int)(ports - packet->l3);
	if (what & NAT_OUT_V6 && fragment)
		header += 8;
	return header - (int)(packet->l4 - packet->l3);
}

static __always_inline bool nat_exit_by_uplink(__u32 entropy, bool v6,
					       struct nat_exit *exit)
{
	const struct uplink *uplink = choose_uplink(entropy, v6);

	if (!uplink)
		return false;
	exit->ifindex = uplink->ifindex;
	exit->mtu = uplink->mtu;
	exit->link_length = uplink->link_length;
	__builtin_memcpy(exit->link, uplink->link[v6], sizeof(exit->link));
	return exit->link_length <= LINK_MAX;
}

/* `fib` lacks the fields that are common to all callers. */
static __always_inline bool nat_exit_of_route(struct xdp_md *ctx,
					      struct bpf_fib_lookup *fib,
					      bool v6, struct nat_exit *exit)
{
	int status;

	fib->ifindex = ctx->ingress_ifindex;
	status = bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
	if (status != BPF_FIB_LKUP_RET_SUCCESS &&
	    status != BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return false;
	exit->ifindex = fib->ifindex;
	exit->mtu = fib->mtu_result;
	exit->link_length = ETH_HLEN;
	__builtin_memcpy(exit->link, fib->dmac, ETH_ALEN);
	__builtin_memcpy(exit->link + ETH_ALEN, fib->smac, ETH_ALEN);
	*(__be16 *)(exit->link + 12) =
		v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	return true;
}

/* OXP_NODE_FIB: routes as for a packet received at the device. */
__noinline int nat_exit_by_route(struct xdp_md *ctx, __u32 number, __u32 what,
				 __u32 length, struct nat_exit *exit)
{
	struct bpf_fib_lookup fib = {};
	struct nat_ends ends;
	bool v6 = what & NAT_OUT_V6;

	if (!exit || !nat_ends_of(number, what, false, &ends))
		return false;
	fib.family = v6 ? AF_INET6 : AF_INET;
	if (v6) {
		__builtin_memcpy(fib.ipv6_src, ends.source, 16);
		__builtin_memcpy(fib.ipv6_dst, ends.destination, 16);
	} else {
		fib.ipv4_src = ends.source[3];
		fib.ipv4_dst = ends.destination[3];
	}
	fib.tot_len = length;
	return nat_exit_of_route(ctx, &fib, v6, exit);
}

/* Whether the flow's member still exists with this flag: its index may have
 * been reused or freed. */
static __always_inline bool nat_keeps(const struct block_view *view,
				      const struct nat_flow *flow, __u8 flag)
{
	const struct block_member *member;
	__u32 index = flow->member_index;

	if (index >= view->block->members || !(flags_of(view, index) & flag))
		return false;
	member = whole_member_of(view, index);
	return same_words(member->address, flow->member) &&
	       (member->port ? member->port : flow->port) == flow->member_port;
}

static __always_inline __u32 nat_member_mtu(const struct nat_flow *flow,
					    __u32 line)
{
	struct block_view view;

	if (!line || !find_block(line, &view) ||
	    !nat_keeps(&view, flow, MEMBER_PRESENT))
		return 0;
	return member_of(&view, flow->member_index)->mtu;
}

/* Returns OXP_FORWARDED, or the reason why the packet cannot leave. */
static __always_inline int nat_find_exit(struct xdp_md *ctx,
					 const struct nat_flow *flow,
					 __u32 number, __u32 what, __u32 length,
					 struct nat_exit *exit)
{
	bool found;

	if (feature_fib && config.flags & OXP_NODE_FIB)
		found = nat_exit_by_route(ctx, number, what, length, exit);
	else
		found = nat_exit_by_uplink(flow->entropy, what & NAT_OUT_V6,
					   exit);
	return found ? OXP_FORWARDED : OXP_DROP_NO_NEXT_HOP;
}

/* Tells the sender the size that fits. Returns the XDP action. */
static __always_inline int nat_too_big(struct xdp_md *ctx,
				       const struct packet *packet, __u32 what,
				       int limit)
{
	__u32 flags = packet->v6 ? TOO_BIG_V6 : 0;

	if (packet->kind == KIND_LATER)
		flags |= TOO_BIG_SILENT;
	/* Never fragments packets: the kernel does not know the flow. */
	if (what & NAT_ERROR || !packet->reserved)
		flags |= TOO_BIG_QUOTED;
	return too_big(ctx, packet->l3, limit > 0 ? limit : 0, flags);
}

/* Clamps SYN and SYN-ACK to what both directions carry; `less` is the overhead
 * on the way to another node. */
static __always_inline void nat_clamp(struct xdp_md *ctx,
				      const struct packet *packet, __u32 what,
				      __u32 mtu, __u32 less)
{
	const __u8 *tcp;

	if (!(config.flags & OXP_NODE_CLAMP_MSS) || what & NAT_ERROR ||
	    packet->protocol != IPPROTO_TCP || packet->kind == KIND_LATER)
		return;
	tcp = at(ctx, packet->l4, sizeof(struct tcphdr));
	if (!tcp || !(tcp[13] & 2))
		return;
	clamp_mss(ctx, packet->l4, packet->end,
		  mtu - less - (packet->v6 || what & NAT_OUT_V6 ? 60 : 40));
}

/* Writes the link header of the outgoing frame. */
static __always_inline bool nat_put_link(struct xdp_md *ctx,
					 const struct nat_exit *exit)
{
	__u16 *to = at(ctx, 0, LINK_MAX);

	if (!to)
		return false;
	for (__u32 i = 0; i < LINK_MAX / 2; i++)
		if (2 * i < exit->link_length)
			to[i] = ((const __u16 *)exit->link)[i];
	return true;
}

static __always_inline void nat_count_reply(__u32 service, __u32 bytes)
{
	struct reply_counters *counters =
		bpf_map_lookup_elem(&reply_counters, &service);

	if (counters) {
		counters->packets++;
		counters->bytes += bytes;
	}
}

static __always_inline void nat_count_request(__u32 line,
					      const struct nat_flow *flow,
					      __u32 bytes, __u32 opens_flow)
{
	struct block_view view;

	if (!find_block(line, &view))
		return;
	count_of_service(view.block->service, bytes, opens_flow);
	if (nat_keeps(&view, flow, MEMBER_PRESENT))
		count_of_member(member_of(&view, flow->member_index)->counter,
				bytes, opens_flow);
}

#endif
