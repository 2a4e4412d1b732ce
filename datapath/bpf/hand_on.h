/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hands a tunnel packet on to the alternative that it names, without naming one
 * again. For sk_buffs only: XDP cannot route on a host that does not forward.
 */
#ifndef OXP_HAND_ON_H
#define OXP_HAND_ON_H

#include "decapsulate.h"
#include "named.h"

#define UDP_SHIM sizeof(struct udphdr)
#define GENEVE_SHIM (UDP_SHIM + sizeof(struct geneve_header))
/* Longest outer IP header and shim without an alternative. */
#define HEADER_MAX (sizeof(struct ipv6hdr) + GENEVE_SHIM)

/* The new outer headers: to the alternative, from the old destination. */
static __always_inline void rewrite_v4(struct iphdr *ip,
				       const struct named *named)
{
	__u16 *word = (void *)ip;
	__u32 sum = 0;

	ip->tot_len = bpf_htons(bpf_ntohs(ip->tot_len) - named->length);
	ip->ttl = OUTER_TTL;
	ip->saddr = ip->daddr;
	__builtin_memcpy(&ip->daddr, named->alternative.bytes + 12, 4);
	ip->check = 0;
	for (int i = 0; i < 10; i++)
		sum += word[i];
	ip->check = ~fold_32(sum);
}

static __always_inline void rewrite_v6(struct ipv6hdr *ip,
				       const struct named *named,
				       const struct tunnel *tunnel)
{
	ip->payload_len = bpf_htons(bpf_ntohs(ip->payload_len) - named->length);
	ip->hop_limit = OUTER_TTL;
	ip->saddr = ip->daddr;
	__builtin_memcpy(&ip->daddr, &named->alternative, 16);
	if (ip->nexthdr == IPPROTO_ROUTING)
		ip->nexthdr = tunnel->type == bpf_htons(ETH_P_IP)
				      ? IPPROTO_IPIP
				      : IPPROTO_IPV6;
}

static __always_inline void rewrite_shim(void *shim, const struct named *named,
					 const __u32 length)
{
	struct geneve_header *geneve;
	struct udphdr *udp = shim;

	if (!length)
		return;
	udp->len = bpf_htons(bpf_ntohs(udp->len) - named->length);
	if (length == sizeof(*udp))
		return;
	geneve = (void *)(udp + 1);
	geneve->version_options = 0;
	geneve->vni = named->vni;
}

/* `v4` and `shim`, a length, are constants. */
static __always_inline int leave(struct __sk_buff *skb,
				 const struct tunnel *tunnel,
				 const struct named *named, const bool v4,
				 const __u32 shim)
{
	const __u32 ip = v4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	__u8 header[HEADER_MAX] __attribute__((aligned(8)));

	if (bpf_skb_load_bytes(skb, tunnel->link, header, ip + shim))
		return -1;
	if (v4)
		rewrite_v4((void *)header, named);
	else
		rewrite_v6((void *)header, named, tunnel);
	rewrite_shim(header + ip, named, shim);
	/* The room removed is right behind the link header, so the remaining
	 * headers are rewritten. */
	if (bpf_skb_adjust_room(skb, -(__s32)named->length, BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	return bpf_skb_store_bytes(skb, tunnel->link, header, ip + shim, 0);
}

/* The kernel routes the result; negative: the packet is corrupt. */
static __always_inline int hand_on(struct __sk_buff *skb,
				   const struct tunnel *tunnel,
				   const struct named *named)
{
	__u32 headers = tunnel->length - named->length;

	if (tunnel->version == 4)
		return headers == sizeof(struct iphdr) + UDP_SHIM
			       ? leave(skb, tunnel, named, true, UDP_SHIM)
			       : leave(skb, tunnel, named, true, GENEVE_SHIM);
	if (headers == sizeof(struct ipv6hdr))
		return leave(skb, tunnel, named, false, 0);
	return headers == sizeof(struct ipv6hdr) + UDP_SHIM
		       ? leave(skb, tunnel, named, false, UDP_SHIM)
		       : leave(skb, tunnel, named, false, GENEVE_SHIM);
}

#endif
