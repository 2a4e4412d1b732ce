/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * IPv4 in IPv4 (RFC 2003):
 *
 *   before   | Ethernet | client -> VIP ...
 *   after    | Ethernet | node -> member | client -> VIP ...
 *              own -> gateway
 *
 * The client's packet is carried as it came, also its TTL: for the client we
 * are part of the destination, not a router.
 */
#ifndef OXP_ENCAP_H
#define OXP_ENCAP_H

#include "maps.h"
#include "parse.h"

#define OUTER_TTL 64

static __always_inline __u16 header_checksum(const struct iphdr *ip)
{
	const __u32 *word = (const __u32 *)ip;
	__u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline enum oxp_outcome
encapsulate(struct xdp_md *ctx, const struct packet *packet, __be32 member)
{
	const struct node_config *node;
	struct ethhdr *ethernet;
	__u64 own, gateway;
	struct iphdr *ip;
	__u32 zero = 0;

	node = bpf_map_lookup_elem(&config, &zero);
	if (!node)
		return OXP_DROP_INTERNAL;
	gateway = *(const volatile __u64 *)&node->gateway_mac;
	own = *(const volatile __u64 *)&node->own_mac;
	if (!gateway || !node->source)
		return OXP_DROP_NO_NEXT_HOP;
	/* also what the frame carries behind the packet goes out again */
	if (packet->room_needed + sizeof(*ip) > node->mtu)
		return OXP_DROP_TOO_BIG;

	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*ip)))
		return OXP_DROP_NO_ROOM;
	ethernet = (void *)(long)ctx->data;
	ip = (void *)(ethernet + 1);
	if ((void *)(ip + 1) > (void *)(long)ctx->data_end)
		return OXP_DROP_INTERNAL;

	__builtin_memcpy(ethernet->h_dest, &gateway, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, &own, ETH_ALEN);
	ethernet->h_proto = bpf_htons(ETH_P_IP);

	ip->version = 4;
	ip->ihl = sizeof(*ip) / 4;
	ip->tos = packet->tos;
	ip->tot_len = bpf_htons(packet->length + sizeof(*ip));
	/* Where the client allows fragments the id must tell packets apart. */
	ip->id = packet->id;
	ip->frag_off = packet->fragment & bpf_htons(IP_DONT_FRAGMENT);
	ip->ttl = OUTER_TTL;
	ip->protocol = IPPROTO_IPIP;
	ip->check = 0;
	ip->saddr = node->source;
	ip->daddr = member;
	ip->check = header_checksum(ip);
	return OXP_FORWARDED;
}

#endif
