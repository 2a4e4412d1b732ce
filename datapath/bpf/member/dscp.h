/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * L3DSR: an LB node replaced the VIP with the member's address, and the DSCP
 * selects the VIP. This restores the VIP and leaves the DSCP. The source is the
 * client's, so there is no LB node to check.
 */
#ifndef OXP_MEMBER_DSCP_H
#define OXP_MEMBER_DSCP_H

#include "member/tunnel.h"

/* The VIP for a packet to an own address; NULL: not such a packet. */
static __always_inline struct member_dscp *find_dscp(void *data, void *end,
						     struct tunnel *tunnel)
{
	struct member_dscp *found;
	struct outer outer = {};
	__be16 type;
	void *ip = skip_link(data, end, &tunnel->link, &type);
	struct iphdr *v4 = ip;
	struct ipv6hdr *v6 = ip;
	__u32 index;

	if (type == bpf_htons(ETH_P_IP)) {
		if ((void *)(v4 + 1) > end || v4->version != 4)
			return NULL;
		index = v4->tos >> 2;
		outer.destination = mapped(v4->daddr);
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		if ((void *)(v6 + 1) > end || v6->version != 6)
			return NULL;
		index = MEMBER_DSCPS +
			((v6->priority << 4 | v6->flow_lbl[0] >> 4) >> 2);
		__builtin_memcpy(&outer.destination, &v6->daddr, 16);
	} else {
		return NULL;
	}
	tunnel->type = type;
	found = bpf_map_lookup_elem(&dscp, &index);
	if (!found || !found->used ||
	    !address_is(&outer.destination, MEMBER_ADDRESS_OWN))
		return NULL;
	return found;
}

static __always_inline int fix_transport(void *ctx, const bool skb,
					 const struct transport *transport,
					 __u32 change)
{
	__u32 offset =
		checksum_offset(transport->protocol, transport->version == 6);

	if (!offset || transport->later)
		return 0;
	return frame_fix_pseudo(ctx, skb, transport->offset + offset, change,
				transport->protocol == IPPROTO_UDP);
}

/* Negative: partly changed. 1: not a packet that LB nodes send. */
static __always_inline int restore_vip(void *ctx, const bool skb, __u32 ip,
				       const struct member_dscp *dscp)
{
	struct ip_address vip = dscp->vip;
	struct transport transport = {};
	__u32 change;
	__be32 from, to;
	__u8 type;

	if (find_transport(ctx, skb, ip, &transport))
		return 1;
	switch (transport.protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		/* Only errors: others are for the member itself. */
		if (transport.later ||
		    frame_load(ctx, skb, transport.offset, &type, 1) ||
		    !is_error(&transport, type))
			return 1;
		break;
	default:
		return 1;
	}

	if (transport.version == 6) {
		change = bpf_csum_diff((void *)&transport.destination, 16,
				       (void *)&vip, 16, 0);
		if (fix_transport(ctx, skb, &transport, change))
			return 1;
		/* The previous helper assumed, as for IPv4, that nothing
		 * offsets the checksum's change; so must this one. */
		return frame_store_bare(ctx, skb,
					ip + offsetof(struct ipv6hdr, daddr),
					&vip, 16);
	}
	__builtin_memcpy(&from, transport.destination.bytes + 12, 4);
	__builtin_memcpy(&to, vip.bytes + 12, 4);
	change = bpf_csum_diff(&from, 4, &to, 4, 0);
	if (fix_transport(ctx, skb, &transport, change))
		return 1;
	if (frame_store(ctx, skb, ip + offsetof(struct iphdr, daddr), &to, 4))
		return -1;
	if (skb)
		return bpf_l3_csum_replace(
			ctx, ip + offsetof(struct iphdr, check), from, to, 4);
	return frame_fix(ctx, ip + offsetof(struct iphdr, check), change,
			 false);
}

#endif
