/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the transport header of a frame after all outer headers that the
 * product uses: IPIP, GUE, GRE, Geneve, SRv6, over IPv4 or IPv6, and VLAN tags.
 * Not shared with the datapath, which is under test.
 */
#ifndef OXT_PARSE_H
#define OXT_PARSE_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LAYERS_MAX 4
#define TAGS_MAX 2
#define EXTENSIONS_MAX 2
#define OFFSET_MAX 512

#define PORT_GUE 6080
#define PORT_GENEVE 6081
#define GRE_KEY_BIT 0x0020 /* in network order */

#define IP_LATER_FRAGMENT 0x3fff /* offset, or more to come */

/* The next header: IP, or the innermost one. */
enum next {
	NEXT_V4,
	NEXT_V6,
	NEXT_UDP,
	NEXT_TCP,
	NEXT_ICMP,
	NEXT_ICMP6,
	NEXT_FRAGMENT,
	NEXT_ARP,
	NEXT_OTHER,
};

struct parser {
	void *start;
	void *end;
	__u32 offset;
	__u8 protocol;
	bool fragment;
};

/*
 * Functions that the verifier checks once, for any offset. They return the
 * offset and kind of the next header; negative: unreadable. If they were
 * inlined, there would be too many paths through several layers.
 */
#define NEXT_SHIFT 16
#define NEXT_OFFSET(result) ((result) & 0xffff)
#define NEXT_KIND(result) ((result) >> NEXT_SHIFT)

static __always_inline struct parser parser_at(struct xdp_md *ctx, __u32 offset)
{
	struct parser parser = {
		.start = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
		.offset = offset,
	};

	return parser;
}

static __always_inline int next_is(const struct parser *parser, enum next next)
{
	if (parser->offset >= OFFSET_MAX)
		return -1;
	return (int)next << NEXT_SHIFT | parser->offset;
}

/* Returns the next header if that many bytes are left. */
static __always_inline void *header(const struct parser *parser, __u32 length)
{
	void *at = parser->start + (parser->offset & (OFFSET_MAX - 1));

	return at + length <= parser->end ? at : NULL;
}

static __always_inline enum next next_of_type(__be16 type)
{
	if (type == bpf_htons(ETH_P_IP))
		return NEXT_V4;
	if (type == bpf_htons(ETH_P_IPV6))
		return NEXT_V6;
	return type == bpf_htons(ETH_P_ARP) ? NEXT_ARP : NEXT_OTHER;
}

__noinline int parse_link(struct xdp_md *ctx)
{
	struct parser parser = parser_at(ctx, 0);
	struct ethhdr *ethernet = header(&parser, sizeof(*ethernet));
	__be16 type;

	if (!ethernet)
		return -1;
	type = ethernet->h_proto;
	parser.offset += sizeof(*ethernet);
	for (int i = 0; i < TAGS_MAX; i++) {
		__be16 *tag = header(&parser, sizeof(__be32));

		if (type != bpf_htons(ETH_P_8021Q) &&
		    type != bpf_htons(ETH_P_8021AD))
			break;
		if (!tag)
			return -1;
		type = tag[1];
		parser.offset += sizeof(__be32);
	}
	return next_is(&parser, next_of_type(type));
}

static __always_inline int parse_v4(struct parser *parser)
{
	struct iphdr *ip = header(parser, sizeof(*ip));

	if (!ip || ip->version != 4 || ip->ihl < 5)
		return -1;
	parser->protocol = ip->protocol;
	parser->fragment = !!(ip->frag_off & bpf_htons(IP_LATER_FRAGMENT));
	parser->offset += ip->ihl * 4;
	return 0;
}

static __always_inline int parse_v6(struct parser *parser)
{
	struct ipv6hdr *ip = header(parser, sizeof(*ip));

	if (!ip || ip->version != 6)
		return -1;
	parser->protocol = ip->nexthdr;
	parser->offset += sizeof(*ip);
	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		struct ipv6_opt_hdr *extension =
			header(parser, sizeof(*extension));

		if (parser->protocol != IPPROTO_ROUTING &&
		    parser->protocol != IPPROTO_HOPOPTS &&
		    parser->protocol != IPPROTO_DSTOPTS)
			break;
		if (!extension)
			return -1;
		parser->protocol = extension->nexthdr;
		parser->offset += (extension->hdrlen + 1) * 8;
	}
	parser->fragment = parser->protocol == IPPROTO_FRAGMENT;
	return 0;
}

/* In variant 1 the packet follows directly (the first bits are its IP
 * version), variant 0 has a header with the protocol. */
static __always_inline int take_gue(struct parser *parser)
{
	__u8 *byte = header(parser, 4);
	enum next next;

	if (!byte)
		return -1;
	if (byte[0] >> 4 == 4)
		return next_is(parser, NEXT_V4);
	if (byte[0] >> 4 == 6)
		return next_is(parser, NEXT_V6);
	if (byte[0] & 0xe0)
		return -1;
	next = byte[1] == IPPROTO_IPIP ? NEXT_V4 : NEXT_V6;
	if (byte[1] != IPPROTO_IPIP && byte[1] != IPPROTO_IPV6)
		return -1;
	parser->offset += 4 + (byte[0] & 0x1f) * 4;
	return next_is(parser, next);
}

static __always_inline int take_geneve(struct parser *parser)
{
	__u8 *byte = header(parser, 8);
	__be16 type;

	if (!byte || byte[0] >> 6)
		return -1;
	type = *(__be16 *)(byte + 2);
	parser->offset += 8 + (byte[0] & 0x3f) * 4;
	return next_is(parser, next_of_type(type));
}

static __always_inline int take_gre(struct parser *parser)
{
	__be16 *word = header(parser, 4);
	__be16 type;

	if (!word || word[0] & ~GRE_KEY_BIT)
		return -1;
	type = word[1];
	parser->offset += word[0] ? 8 : 4;
	return next_is(parser, next_of_type(type));
}

static __always_inline int take_udp(struct parser *parser)
{
	struct udphdr *udp = header(parser, sizeof(*udp));

	if (!udp)
		return -1;
	if (udp->dest == bpf_htons(PORT_GUE)) {
		parser->offset += sizeof(*udp);
		return take_gue(parser);
	}
	if (udp->dest == bpf_htons(PORT_GENEVE)) {
		parser->offset += sizeof(*udp);
		return take_geneve(parser);
	}
	return next_is(parser, NEXT_UDP);
}

static __always_inline int take_protocol(struct parser *parser)
{
	if (parser->fragment)
		return next_is(parser, NEXT_FRAGMENT);
	switch (parser->protocol) {
	case IPPROTO_IPIP:
		return next_is(parser, NEXT_V4);
	case IPPROTO_IPV6:
		return next_is(parser, NEXT_V6);
	case IPPROTO_GRE:
		return take_gre(parser);
	case IPPROTO_UDP:
		return take_udp(parser);
	case IPPROTO_TCP:
		return next_is(parser, NEXT_TCP);
	case IPPROTO_ICMP:
		return next_is(parser, NEXT_ICMP);
	case IPPROTO_ICMPV6:
		return next_is(parser, NEXT_ICMP6);
	}
	return next_is(parser, NEXT_OTHER);
}

/* Parses an IP header and the outer header after it, if any. */
__noinline int parse_layer(struct xdp_md *ctx, __u32 offset, __u32 next)
{
	struct parser parser = parser_at(ctx, offset);

	if (next == NEXT_V4 ? parse_v4(&parser) : parse_v6(&parser))
		return -1;
	return take_protocol(&parser);
}

#endif
