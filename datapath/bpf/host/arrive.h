/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a frame at the NIC is from an LB node and has a key of ours. Reads
 * only. */
#ifndef OXP_HOST_ARRIVE_H
#define OXP_HOST_ARRIVE_H

#include "host/count.h"
#include "tunnel.h"

_Static_assert(sizeof(struct geneve_header) == HOST_GENEVE_HEADER, "Geneve");

/* Frames are pulled that far, as far as they go: link, outer, inner header and
 * that of TCP. */
#define ARRIVE_PULLED                                                          \
	(ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct udphdr) +           \
	 sizeof(struct geneve_header) + sizeof(struct ipv6hdr) +               \
	 sizeof(struct tcphdr))
/* Whether it is ours is seen in these. */
#define ARRIVE_PEEKED                                                          \
	(ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr) +             \
	 sizeof(struct geneve_header))

static __always_inline bool is_local_v6(const struct host_settings *node,
					const struct in6_addr *address)
{
	const __u32 *word = address->in6_u.u6_addr32;

	return word[0] == node->local_v6[0] && word[1] == node->local_v6[1] &&
	       word[2] == node->local_v6[2] && word[3] == node->local_v6[3];
}

static __always_inline bool is_sid(const struct host_settings *node,
				   const struct in6_addr *address)
{
	const __u32 *word = address->in6_u.u6_addr32;

	return word[0] == node->sid[0] && word[1] == node->sid[1] &&
	       word[2] == node->sid[2];
}

/* The cheap part, for all frames: whether the destination is one of ours and
 * the protocol one that carries packets. */
static __always_inline bool may_be_ours(struct __sk_buff *skb,
					const struct host_settings *node)
{
	void *data = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *v4 = (void *)(ethernet + 1);
	struct ipv6hdr *v6 = (void *)(ethernet + 1);

	if ((void *)(v4 + 1) > end)
		return false;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP))
		return v4->protocol == IPPROTO_UDP &&
		       v4->daddr == node->local_v4;
	if (ethernet->h_proto != bpf_htons(ETH_P_IPV6) ||
	    (void *)(v6 + 1) > end)
		return false;
	if (v6->nexthdr == IPPROTO_UDP)
		return is_local_v6(node, &v6->daddr);
	return (v6->nexthdr == IPPROTO_IPIP || v6->nexthdr == IPPROTO_IPV6) &&
	       is_sid(node, &v6->daddr);
}

/* The key; its protocol's form is checked. False: not one of our tunnels. */
static __always_inline bool find_tunnel(struct outer *outer, void *end,
					struct tunnel *tunnel, __u32 *key)
{
	struct udphdr *udp = outer->payload;
	__u8 *inner;

	if (outer->protocol != IPPROTO_UDP) {
		tunnel->type = outer->protocol == IPPROTO_IPIP
				       ? bpf_htons(ETH_P_IP)
				       : bpf_htons(ETH_P_IPV6);
		tunnel->length = outer->header;
		*key = bpf_ntohl(*(__be32 *)(outer->destination.bytes + 12));
		return true;
	}
	/* OVN's carry Ethernet and an option: with both ends at one address
	 * this tells them from ours. */
	if ((void *)(udp + 1) > end ||
	    udp->dest != bpf_htons(HOST_GENEVE_PORT) || udp->check)
		return false;
	inner = find_inner_of_geneve(outer, end, tunnel);
	if (!inner)
		return false;
	if (bpf_ntohs(udp->len) != outer->length - outer->header)
		outer->wrong = 1;
	*key = bpf_ntohl(*(__be32 *)(inner - 4)) >> 8;
	return true;
}

struct arrived {
	struct tunnel tunnel;
	struct host_entry *entry;
	__u32 inner_length;
};

/* PASS: not ours; IN: go on; others: the drop. */
static __always_inline enum host_outcome
arrive(struct __sk_buff *skb, struct arrived *out, struct seen *seen,
       const struct host_settings *node)
{
	void *data = (void *)(long)skb->data,
	     *end = (void *)(long)skb->data_end;
	struct ip_address destination = {};
	struct tunnel *tunnel = &out->tunnel;
	struct outer outer = {};
	__be16 type;
	void *ip = skip_link(data, end, &tunnel->link, &type), *inner;
	__u32 *place;

	if (tunnel->link != ETH_HLEN ||
	    read_outer(ip, end, type, tunnel, &outer) || outer.fragment ||
	    !find_tunnel(&outer, end, tunnel, &seen->key))
		return HOST_PASS;
	place = find_key(seen->key);
	if (!is_of_node(&outer.source, node))
		return place ? HOST_DROP_SOURCE : HOST_PASS;
	if (!place)
		return HOST_DROP_KEY;
	out->entry = entries_at(*place);
	/* the key goes first and comes last */
	if (!out->entry || !out->entry->used || out->entry->key != seen->key)
		return HOST_DROP_KEY;
	seen->place = *place;
	seen->host_port = out->entry->host_port;
	inner = ip + tunnel->length;
	seen->length = read_inner(inner, end, tunnel, &destination);
	if (!seen->length || outer.wrong ||
	    outer.length > skb->len - tunnel->link ||
	    outer.length != tunnel->length + seen->length)
		return HOST_DROP_MALFORMED;
	return HOST_IN;
}

#endif
