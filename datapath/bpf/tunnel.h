/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Outer and inner headers of a tunnel packet. Uses direct packet access only: a
 * packet whose headers are not contiguous does not count as a tunnel packet.
 */
#ifndef OXP_TUNNEL_H
#define OXP_TUNNEL_H

#include "transport.h"

struct tunnel {
	__u32 link;   /* length of Ethernet header and VLAN tags */
	__u32 length; /* length of the outer headers */
	__be16 type;  /* Ethertype of the inner packet */
	__u8 version; /* of the outer header */
	__u8 tos;     /* outer TOS or traffic class */
	__u8 inner_tos;
};

struct outer {
	struct ip_address source, destination;
	void *payload;
	__u32 length; /* of the packet, from its own header */
	__u32 header;
	__u8 protocol;
	__u8 fragment;
	__u8 wrong; /* the checksum is wrong */
};

struct geneve_header {
	__be16 version_options; /* and flags: nodes send zeroes */
	__be16 type;
	__be32 vni;
};
/* Returns the IP header; *type gets its Ethertype, 0 if there is none. */
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

static __always_inline bool is_ip(__be16 type)
{
	return type == bpf_htons(ETH_P_IP) || type == bpf_htons(ETH_P_IPV6);
}

static __always_inline void *find_inner_of_geneve(const struct outer *outer,
						  void *end,
						  struct tunnel *tunnel)
{
	struct udphdr *udp = outer->payload;
	struct geneve_header *geneve = (void *)(udp + 1);

	if ((void *)(geneve + 1) > end || geneve->version_options ||
	    !is_ip(geneve->type))
		return NULL;
	tunnel->type = geneve->type;
	tunnel->length = outer->header + sizeof(*udp) + sizeof(*geneve);
	return geneve + 1;
}

/* Reads the inner header. Returns its packet's length, 0 if it is invalid. */
static __always_inline __u32 read_inner(void *ip, void *end,
					struct tunnel *tunnel,
					struct ip_address *destination)
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

#endif
