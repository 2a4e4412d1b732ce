/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The member's programs: remove what an LB node put around a client's packet,
 * so that the stack sees client -> VIP, and adapt the replies. The VIP must be
 * an address of the host, for example on loopback.
 *
 *   client -> LB node -> [tunnel] -> oxp_member_xdp -> VIP's socket
 *                                    or oxp_member_in
 *   other member <- [tunnel] <-------- oxp_member_in, a second chance
 *   client <------------------------ oxp_member_out <-
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "decapsulate.h"
#include "ecn.h"
#include "member/dscp.h"
#include "member/maps.h"
#include "member/ports.h"
#include "member/second_chance.h"
#include "member/tunnel.h"
#include "mss.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline enum verdict rewrite_in(void *ctx, const bool skb,
					       __u32 ip)
{
	struct transport transport = {};

	if (!config.has_ports || find_transport(ctx, skb, ip, &transport))
		return TAKE;
	if (rewrite_port(ctx, skb, &transport, IN))
		return counted(DROP, MEMBER_DROP_FAILED);
	return TAKE;
}

static __always_inline enum verdict take_dscp(void *ctx, const bool skb,
					      void *data, void *end)
{
	struct tunnel tunnel = {};
	struct member_dscp *dscp = find_dscp(data, end, &tunnel);
	int status;

	if (!dscp)
		return PASS;
	status = restore_vip(ctx, skb, tunnel.link, dscp);
	if (status > 0)
		return PASS;
	if (status < 0)
		return counted(DROP, MEMBER_DROP_FAILED);
	count(MEMBER_TAKEN_DSCP);
	return rewrite_in(ctx, skb, tunnel.link);
}

/* XDP does not decapsulate packets that name an alternative: it can neither
 * route a packet on a host that does not forward, nor ask a socket what it has
 * sent. It leaves them to oxp_member_in, which is then attached, too. */
static __always_inline enum verdict hand_on_counted(struct __sk_buff *skb,
						    const struct tunnel *tunnel,
						    const struct named *named)
{
	if (hand_on(skb, tunnel, named))
		return counted(DROP, MEMBER_DROP_FAILED);
	return counted(HAND_ON, MEMBER_HANDED_ON);
}

static __always_inline enum verdict take_in(void *ctx, const bool skb,
					    void *data, void *end, __u32 frame)
{
	enum member_counter counter = MEMBER_TAKEN_IPIP;
	struct connection connection = {};
	struct tunnel tunnel = {};
	struct named named = {};
	enum verdict verdict =
		examine(data, end, frame, &tunnel, &named, &counter);
	int ecn;

	if (verdict == PASS && config.has_dscp)
		return take_dscp(ctx, skb, data, end);
	if (verdict != TAKE)
		return verdict;
	if (names_another(ctx, skb, &tunnel, &named, &connection)) {
		if (!skb)
			return HAND_ON;
		if (!is_here(ctx, &connection)) {
			if (may_hand_on(&named))
				return hand_on_counted(ctx, &tunnel, &named);
			count(MEMBER_KEPT);
		}
	}
	ecn = combined_ecn(tunnel.inner_tos & ECN_MASK, tunnel.tos & ECN_MASK);
	if (ecn < 0)
		return counted(DROP, MEMBER_DROP_ECN);
	if (skb ? decapsulate_skb(ctx, &tunnel, config.old_adjust_room)
		: decapsulate_xdp(ctx, &tunnel))
		return counted(DROP, MEMBER_DROP_FAILED);
	if (ecn != (tunnel.inner_tos & ECN_MASK) &&
	    set_ecn(ctx, skb, tunnel.link, tunnel.type, ecn))
		return counted(DROP, MEMBER_DROP_FAILED);
	count(counter);
	return rewrite_in(ctx, skb, tunnel.link);
}

SEC("xdp.frags")
int oxp_member_xdp(struct xdp_md *ctx)
{
	enum verdict verdict =
		take_in(ctx, false, (void *)(long)ctx->data,
			(void *)(long)ctx->data_end, bpf_xdp_get_buff_len(ctx));

	return verdict == DROP ? XDP_DROP : XDP_PASS;
}

/* Other filters of the interface run after this one. */
SEC("tc")
int oxp_member_in(struct __sk_buff *skb)
{
	enum verdict verdict;
	__be16 type = skb->protocol;

	/* A tag in the data is the second of two, and the kernel offers no way
	 * to cut after it. */
	if (type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6))
		return TC_ACT_UNSPEC;
	if (skb->data_end - skb->data < HEADERS_MAX)
		bpf_skb_pull_data(skb, skb->len < HEADERS_MAX ? skb->len
							      : HEADERS_MAX);
	verdict = take_in(skb, true, (void *)(long)skb->data,
			  (void *)(long)skb->data_end, skb->len);
	if (verdict == HAND_ON)
		return bpf_redirect_neigh(skb->ifindex, NULL, 0, 0);
	return verdict == DROP ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

SEC("tc")
int oxp_member_out(struct __sk_buff *skb)
{
	struct transport transport = {};
	__be16 type = skb->protocol;
	__u32 link = ETH_HLEN;
	int clamped;

	if (!config.mss_v4 && !config.mss_v6 && !config.has_ports)
		return TC_ACT_UNSPEC;
	/* Tags that no device adds later are in the data. */
	for (int i = 0; i < 2 && is_vlan(type); i++) {
		if (bpf_skb_load_bytes(skb, link + 2, &type, sizeof(type)))
			return TC_ACT_UNSPEC;
		link += sizeof(struct vlan_tag);
	}
	if ((type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6)) ||
	    find_transport(skb, true, link, &transport) ||
	    !is_vip(&transport.source))
		return TC_ACT_UNSPEC;
	clamped = clamp_mss(skb, true, &transport,
			    transport.version == 4 ? config.mss_v4
						   : config.mss_v6);
	if (clamped > 0)
		count(MEMBER_MSS_OUT);
	if (clamped < 0 ||
	    (config.has_ports && rewrite_port(skb, true, &transport, OUT))) {
		count(MEMBER_DROP_FAILED);
		return TC_ACT_SHOT;
	}
	return TC_ACT_UNSPEC;
}
