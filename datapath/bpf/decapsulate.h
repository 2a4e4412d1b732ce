/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Removes the outer headers; the Ethertype becomes the inner packet's. */
#ifndef OXP_DECAPSULATE_H
#define OXP_DECAPSULATE_H

#include "tunnel.h"

/* Since Linux 6.3: the IP version of the inner packet. */
#define ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)

static __always_inline int cut_frame(struct xdp_md *ctx, __u32 length,
				     const __u32 link, __be16 type)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u8 saved[LINK_MAX];

	if (data + link > end)
		return -1;
	__builtin_memcpy(saved, data, link);
	if (bpf_xdp_adjust_head(ctx, length))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + link > end)
		return -1;
	__builtin_memcpy(data, saved, link);
	*(__be16 *)(data + link - sizeof(type)) = type;
	return 0;
}

static __always_inline int decapsulate_xdp(struct xdp_md *ctx,
					   const struct tunnel *tunnel)
{
	switch (tunnel->link) {
	case ETH_HLEN:
		return cut_frame(ctx, tunnel->length, ETH_HLEN, tunnel->type);
	case ETH_HLEN + 4:
		return cut_frame(ctx, tunnel->length, ETH_HLEN + 4,
				 tunnel->type);
	default:
		return cut_frame(ctx, tunnel->length, LINK_MAX, tunnel->type);
	}
}

/*
 * Aggregated segments keep their size, as the removed headers precede all of
 * them. Before Linux 6.3 only a helper meant for protocol translation can
 * change the IP version: it makes the header 20 bytes longer or shorter and the
 * segments by as much shorter or longer, and the second step undoes both.
 */
static __always_inline int decapsulate_skb(struct __sk_buff *skb,
					   const struct tunnel *tunnel,
					   const bool old_adjust_room)
{
	__u8 inner = tunnel->type == bpf_htons(ETH_P_IP) ? 4 : 6;
	int longer = sizeof(struct ipv6hdr) - sizeof(struct iphdr);
	__s32 length = tunnel->length;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	__be16 type = tunnel->type;

	if (inner == tunnel->version)
		return bpf_skb_adjust_room(skb, -length, BPF_ADJ_ROOM_MAC,
					   flags);
	/* No checksum covers the link header. */
	if (bpf_skb_store_bytes(skb, tunnel->link - sizeof(type), &type,
				sizeof(type), 0))
		return -1;
	/* Kernels without the flag refuse it and change nothing. */
	if (!old_adjust_room &&
	    !bpf_skb_adjust_room(skb, -length, BPF_ADJ_ROOM_MAC,
				 flags | (inner == 4 ? ADJ_ROOM_DECAP_L3_IPV4
						     : ADJ_ROOM_DECAP_L3_IPV6)))
		return 0;
	if (bpf_skb_change_proto(skb, type, 0) ||
	    bpf_skb_adjust_room(skb, inner == 4 ? longer : -longer,
				BPF_ADJ_ROOM_MAC, 0))
		return -1;
	return bpf_skb_adjust_room(skb, -length, BPF_ADJ_ROOM_MAC, flags);
}

#endif
