/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a frame is a tunnel packet for this member, and how much of it is
 * the tunnel's. Reads the frame only.
 *
 * A tunnel packet has the form that an LB node sends: an outer IPv4 header
 * without options or an IPv6 header without extensions, then
 *   IPIP, SRv6  protocol 4 or 41, the inner packet
 *   GRE         protocol 47, four bytes: no flags, version 0, Ethertype
 *   GUE         UDP to MEMBER_GUE_PORT, checksum 0 (RFC 6935), the inner packet
 * Everything else is the stack's.
 */
#ifndef OXP_MEMBER_TUNNEL_H
#define OXP_MEMBER_TUNNEL_H

#include "member/transport.h"

#define OUTER_MAX (sizeof(struct ipv6hdr) + MEMBER_SHIM_MAX)
/* What is read at most: link, outer and inner header. */
#define HEADERS_MAX (LINK_MAX + OUTER_MAX + sizeof(struct ipv6hdr))

enum verdict {
	PASS,
	TAKE,
	DROP
};

struct tunnel {
	__u32 link;   /* bytes of Ethernet header and VLAN tags */
	__u32 length; /* bytes of outer headers */
	__be16 type;  /* Ethertype of the inner packet */
	__u8 version; /* of the outer header */
	__u8 tos;     /* outer TOS or traffic class */
	__u8 inner_tos;
	enum member_counter counter;
};

struct outer {
	struct member_address source, destination;
	void *payload;
	__u32 length; /* of the packet, by its own header */
	__u32 header;
	__u8 protocol;
	__u8 fragment;
	__u8 wrong; /* the checksum */
};

struct gre_header {
	__be16 flags;
	__be16 type;
};
_Static_assert(sizeof(struct gre_header) <= MEMBER_SHIM_MAX, "GRE");
_Static_assert(sizeof(struct udphdr) <= MEMBER_SHIM_MAX, "GUE");

/* Where the IP header begins; its Ethertype in `type`, 0 if there is none. */
static __always_inline void *skip_link(void *data, void *end, __u32 *link,
				       __be16 *type)
{
	struct ethhdr *ethernet = data;
	struct vlan_tag *tag = (void *)(ethernet + 1);

	*type = 0;
	*link = ETH_HLEN;
	if ((void *)(ethernet + 1) > end)
		return data;
	*type = ethernet->h_proto;
	for (int i = 0; i < 2 && is_vlan(*type); i++) {
		if ((void *)(tag + 1) > end) {
			*type = 0;
			return data;
		}
		*type = tag->type;
		*link += sizeof(*tag);
		tag++;
	}
	return tag;
}

static __always_inline bool wrong_checksum(const struct iphdr *ip)
{
	const __u16 *word = (const void *)ip;
	__u32 sum = 0;

	for (int i = 0; i < 10; i++)
		sum += word[i];
	return fold_32(sum) != 0xffff;
}

static __always_inline int read_outer(void *ip, void *end, __be16 type,
				      struct tunnel *tunnel,
				      struct outer *outer)
{
	struct iphdr *v4 = ip;
	struct ipv6hdr *v6 = ip;

	if (type == bpf_htons(ETH_P_IP)) {
		if ((void *)(v4 + 1) > end || v4->version != 4 || v4->ihl != 5)
			return -1;
		tunnel->version = 4;
		tunnel->tos = v4->tos;
		outer->source = mapped(v4->saddr);
		outer->destination = mapped(v4->daddr);
		outer->payload = v4 + 1;
		outer->header = sizeof(*v4);
		outer->length = bpf_ntohs(v4->tot_len);
		outer->protocol = v4->protocol;
		outer->fragment =
			!!(v4->frag_off &
			   bpf_htons(IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET));
		outer->wrong = wrong_checksum(v4);
		return 0;
	}
	if (type == bpf_htons(ETH_P_IPV6)) {
		if ((void *)(v6 + 1) > end || v6->version != 6)
			return -1;
		tunnel->version = 6;
		tunnel->tos = v6->priority << 4 | v6->flow_lbl[0] >> 4;
		__builtin_memcpy(&outer->source, &v6->saddr, 16);
		__builtin_memcpy(&outer->destination, &v6->daddr, 16);
		outer->payload = v6 + 1;
		outer->header = sizeof(*v6);
		outer->length = sizeof(*v6) + bpf_ntohs(v6->payload_len);
		outer->protocol = v6->nexthdr;
		outer->fragment = 0;
		outer->wrong = 0;
		return 0;
	}
	return -1;
}

/* Where the inner packet begins, its Ethertype in tunnel->type; NULL: not one
 * of our tunnels. */
static __always_inline void *find_inner(struct outer *outer, void *end,
					struct tunnel *tunnel)
{
	struct gre_header *gre = outer->payload;
	struct udphdr *udp = outer->payload;
	__u8 *inner;

	switch (outer->protocol) {
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
		tunnel->counter = MEMBER_TAKEN_IPIP;
		tunnel->type = outer->protocol == IPPROTO_IPIP
				       ? bpf_htons(ETH_P_IP)
				       : bpf_htons(ETH_P_IPV6);
		tunnel->length = outer->header;
		return outer->payload;
	case IPPROTO_GRE:
		if ((void *)(gre + 1) > end || gre->flags ||
		    (gre->type != bpf_htons(ETH_P_IP) &&
		     gre->type != bpf_htons(ETH_P_IPV6)))
			return NULL;
		tunnel->counter = MEMBER_TAKEN_GRE;
		tunnel->type = gre->type;
		tunnel->length = outer->header + sizeof(*gre);
		return gre + 1;
	case IPPROTO_UDP:
		inner = (void *)(udp + 1);
		if ((void *)(inner + 1) > end ||
		    udp->dest != bpf_htons(MEMBER_GUE_PORT) || udp->check)
			return NULL;
		/* 4 and 6 are variant 1 with an IP packet; others are other
		 * forms of GUE. */
		if (*inner >> 4 == 4)
			tunnel->type = bpf_htons(ETH_P_IP);
		else if (*inner >> 4 == 6)
			tunnel->type = bpf_htons(ETH_P_IPV6);
		else
			return NULL;
		tunnel->counter = MEMBER_TAKEN_GUE;
		tunnel->length = outer->header + sizeof(*udp);
		if (bpf_ntohs(udp->len) != outer->length - outer->header)
			outer->wrong = 1;
		return inner;
	default:
		return NULL;
	}
}

/* The inner header; its packet's length, 0 if it is no such header. */
static __always_inline __u32 read_inner(void *ip, void *end,
					struct tunnel *tunnel,
					struct member_address *destination)
{
	struct iphdr *v4 = ip;
	struct ipv6hdr *v6 = ip;

	if (tunnel->type == bpf_htons(ETH_P_IP)) {
		if ((void *)(v4 + 1) > end || v4->version != 4 || v4->ihl < 5)
			return 0;
		*destination = mapped(v4->daddr);
		tunnel->inner_tos = v4->tos;
		return bpf_ntohs(v4->tot_len);
	}
	if ((void *)(v6 + 1) > end || v6->version != 6)
		return 0;
	__builtin_memcpy(destination, &v6->daddr, 16);
	tunnel->inner_tos = v6->priority << 4 | v6->flow_lbl[0] >> 4;
	return sizeof(*v6) + bpf_ntohs(v6->payload_len);
}

static __always_inline bool is_node(const struct member_address *source)
{
	struct member_network key = {.bits = 128, .address = *source};

	return config.any_source || bpf_map_lookup_elem(&nodes, &key);
}

static __always_inline enum verdict counted(enum verdict verdict,
					    enum member_counter counter)
{
	count(counter);
	return verdict;
}

/*
 * The checks, from "is it ours" to "is it right": a packet is known to be ours
 * by its tunnel, an own address outside and a VIP inside. From an LB node it
 * is ours without the inner header, too: if that is not there, nobody else
 * wants it.
 */
static __always_inline enum verdict examine(void *data, void *end, __u32 frame,
					    struct tunnel *tunnel)
{
	struct member_address destination = {};
	struct outer outer = {};
	__u32 inner_length;
	void *ip, *inner;
	__be16 type;
	bool node;

	ip = skip_link(data, end, &tunnel->link, &type);
	if (read_outer(ip, end, type, tunnel, &outer))
		return PASS;
	if (outer.fragment) {
		if ((outer.protocol == IPPROTO_IPIP ||
		     outer.protocol == IPPROTO_IPV6 ||
		     outer.protocol == IPPROTO_GRE) &&
		    address_is(&outer.destination, MEMBER_ADDRESS_OWN))
			return counted(PASS, MEMBER_PASSED_FRAGMENT);
		return PASS;
	}
	inner = find_inner(&outer, end, tunnel);
	if (!inner || !address_is(&outer.destination, MEMBER_ADDRESS_OWN))
		return PASS;

	inner_length = read_inner(inner, end, tunnel, &destination);
	node = is_node(&outer.source);
	if (!inner_length)
		return node ? counted(DROP, MEMBER_DROP_MALFORMED) : PASS;
	if (!address_is(&destination, MEMBER_ADDRESS_VIP))
		return counted(PASS, MEMBER_PASSED_NOT_VIP);
	if (!node)
		return counted(DROP, MEMBER_DROP_SOURCE);
	if (outer.wrong || outer.length > frame - tunnel->link ||
	    outer.length != tunnel->length + inner_length)
		return counted(DROP, MEMBER_DROP_MALFORMED);
	return TAKE;
}

#endif
