/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a frame is a tunnel packet for this member, and which part of it is
 * the tunnel's. Only reads the frame.
 *
 * A tunnel packet has the format that LB nodes send: an outer IPv4 header
 * without options or an IPv6 header without extensions, then
 *   IPIP, SRv6  protocol 4 or 41, the inner packet
 *   GRE         protocol 47, four bytes: no flags, version 0, Ethertype
 *   GUE         UDP to MEMBER_GUE_PORT, checksum 0 (RFC 6935), the inner packet
 *   Geneve      UDP to MEMBER_GENEVE_PORT, checksum 0, eight bytes: version 0,
 *               no options, Ethertype IPv4 or IPv6, any VNI; the inner packet
 * or with an alternative as in named.h. Everything else is left to the stack.
 */
#ifndef OXP_MEMBER_TUNNEL_H
#define OXP_MEMBER_TUNNEL_H

#include "member/maps.h"
#include "named.h"
#include "tunnel.h"

#define OUTER_MAX (sizeof(struct ipv6hdr) + MEMBER_SHIM_NAMED_MAX)
/* Maximum that is read: link, outer and inner header. */
#define HEADERS_MAX (LINK_MAX + OUTER_MAX + sizeof(struct ipv6hdr))

enum verdict {
	PASS,
	TAKE,
	DROP,
	HAND_ON
};

struct gre_header {
	__be16 flags;
	__be16 type;
};
_Static_assert(sizeof(struct udphdr) + sizeof(struct geneve_header) <=
		       MEMBER_SHIM_MAX,
	       "Geneve");
_Static_assert(sizeof(struct gre_header) <= MEMBER_SHIM_MAX, "GRE");
_Static_assert(sizeof(struct udphdr) <= MEMBER_SHIM_MAX, "GUE");

/* 4 and 6 are variant 1 with an IP packet, 0 is variant 0 with an alternative;
 * others are unsupported forms of GUE. */
static __always_inline void *find_inner_of_gue(const struct outer *outer,
					       void *end, struct tunnel *tunnel,
					       struct named *named,
					       enum member_counter *counter)
{
	struct udphdr *udp = outer->payload;
	__u8 *inner = (void *)(udp + 1);

	if ((void *)(inner + 1) > end)
		return NULL;
	if (*inner >> 4 == 0) {
		*counter = MEMBER_TAKEN_GUE;
		return find_named_in_gue(outer, end, tunnel, named);
	}
	if (*inner >> 4 == 4)
		tunnel->type = bpf_htons(ETH_P_IP);
	else if (*inner >> 4 == 6)
		tunnel->type = bpf_htons(ETH_P_IPV6);
	else
		return NULL;
	*counter = MEMBER_TAKEN_GUE;
	tunnel->length = outer->header + sizeof(*udp);
	return inner;
}

static __always_inline void *find_inner_of_udp(struct outer *outer, void *end,
					       struct tunnel *tunnel,
					       struct named *named,
					       enum member_counter *counter)
{
	struct udphdr *udp = outer->payload;

	if ((void *)(udp + 1) > end || udp->check)
		return NULL;
	if (bpf_ntohs(udp->len) != outer->length - outer->header)
		outer->wrong = 1;
	if (udp->dest == bpf_htons(MEMBER_GUE_PORT))
		return find_inner_of_gue(outer, end, tunnel, named, counter);
	if (udp->dest != bpf_htons(MEMBER_GENEVE_PORT) ||
	    (void *)(udp + 1) + sizeof(__be16) > end)
		return NULL;
	*counter = MEMBER_TAKEN_GENEVE;
	if (*(__be16 *)(udp + 1))
		return find_named_in_geneve(outer, end, tunnel, named);
	return find_inner_of_geneve(outer, end, tunnel);
}

/* Returns the inner packet, with its Ethertype in tunnel->type; NULL: not one
 * of our tunnels. */
static __always_inline void *find_inner(struct outer *outer, void *end,
					struct tunnel *tunnel,
					struct named *named,
					enum member_counter *counter)
{
	struct gre_header *gre = outer->payload;

	switch (outer->protocol) {
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
		*counter = MEMBER_TAKEN_IPIP;
		tunnel->type = outer->protocol == IPPROTO_IPIP
				       ? bpf_htons(ETH_P_IP)
				       : bpf_htons(ETH_P_IPV6);
		tunnel->length = outer->header;
		return outer->payload;
	case IPPROTO_GRE:
		if ((void *)(gre + 1) > end || gre->flags || !is_ip(gre->type))
			return NULL;
		*counter = MEMBER_TAKEN_GRE;
		tunnel->type = gre->type;
		tunnel->length = outer->header + sizeof(*gre);
		return gre + 1;
	case IPPROTO_UDP:
		return find_inner_of_udp(outer, end, tunnel, named, counter);
	case IPPROTO_ROUTING:
		*counter = MEMBER_TAKEN_IPIP;
		return find_named_in_segments(outer, end, tunnel, named);
	default:
		return NULL;
	}
}

static __always_inline bool network_is(const struct ip_address *address,
				       enum member_network_is what)
{
	struct member_network key = {.bits = 128, .address = *address};
	__u8 *is = bpf_map_lookup_elem(&nodes, &key);

	return is && *is & what;
}

static __always_inline bool is_node(const struct ip_address *source)
{
	return config.any_source || network_is(source, MEMBER_NETWORK_NODE);
}

/* Whether another member handed the packet on. Without an alternative, packets
 * from a network that is listed for both count as handed on. */
static __always_inline bool is_handed_on(const struct ip_address *source,
					 const struct named *named)
{
	return config.hands_on && !named->length &&
	       network_is(source, MEMBER_NETWORK_MEMBER);
}

static __always_inline enum verdict counted(enum verdict verdict,
					    enum member_counter counter)
{
	count(counter);
	return verdict;
}

/*
 * Checks first whether the packet is for us, then whether it is valid. A packet
 * is for us if it is a tunnel with an own address outside and a VIP inside. A
 * packet from an LB node is for us even without a readable inner header: nobody
 * else wants it.
 */
static __always_inline enum verdict examine(void *data, void *end, __u32 frame,
					    struct tunnel *tunnel,
					    struct named *named,
					    enum member_counter *counter)
{
	struct ip_address destination = {};
	struct outer outer = {};
	__u32 inner_length;
	void *ip, *inner;
	__be16 type;
	bool node, handed_on;

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
	inner = find_inner(&outer, end, tunnel, named, counter);
	if (!inner || !address_is(&outer.destination, MEMBER_ADDRESS_OWN))
		return PASS;

	inner_length = read_inner(inner, end, tunnel, &destination);
	handed_on = is_handed_on(&outer.source, named);
	node = handed_on || is_node(&outer.source);
	if (!inner_length)
		return node ? counted(DROP, MEMBER_DROP_MALFORMED) : PASS;
	if (!is_vip(&destination))
		return counted(PASS, MEMBER_PASSED_NOT_VIP);
	if (!node)
		return counted(DROP, MEMBER_DROP_SOURCE);
	if (outer.wrong || outer.length > frame - tunnel->link ||
	    outer.length != tunnel->length + inner_length)
		return counted(DROP, MEMBER_DROP_MALFORMED);
	if (handed_on)
		count(MEMBER_SECOND_CHANCE);
	return TAKE;
}

#endif
