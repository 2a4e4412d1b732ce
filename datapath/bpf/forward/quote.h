/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packet that an ICMP error quotes, as far as it is quoted. */
#ifndef OXP_QUOTE_H
#define OXP_QUOTE_H

#include "forward/parse.h"

static __always_inline int parse_quote_v4(struct xdp_md *ctx,
					  struct packet *quote)
{
	const struct iphdr *ip = in_packet(ctx, quote, quote->l3, sizeof(*ip));
	__u32 header;

	if (!ip || ip->version != 4)
		return -1;
	header = (*(const __u8 *)ip & 15) * 4;
	if (header < sizeof(*ip) ||
	    ip->frag_off & bpf_htons(IP_FRAGMENT_OFFSET))
		return -1;
	from_v4(quote->source, ip->saddr);
	from_v4(quote->destination, ip->daddr);
	quote->protocol = ip->protocol;
	quote->l4 = quote->l3 + header;
	return 0;
}

static __always_inline int parse_quote_v6(struct xdp_md *ctx,
					  struct packet *quote)
{
	const struct ipv6hdr *ip =
		in_packet(ctx, quote, quote->l3, sizeof(*ip));

	if (!ip || ip->version != 6)
		return -1;
	__builtin_memcpy(quote->source, &ip->saddr, 16);
	__builtin_memcpy(quote->destination, &ip->daddr, 16);
	quote->protocol = ip->nexthdr;
	quote->l4 = quote->l3 + sizeof(*ip);
	if (walk_extensions(ctx, quote) || quote->kind == KIND_LATER)
		return -1;
	return 0;
}

/* Parses the quoted header at quote->l3: its addresses, and the offset of its
 * transport's header, which must have ports. The quote's length cannot be
 * checked. */
static __always_inline int parse_quote(struct xdp_md *ctx, struct packet *quote)
{
	if (quote->v6 ? parse_quote_v6(ctx, quote) : parse_quote_v4(ctx, quote))
		return -1;
	return has_ports(quote->protocol) ? 0 : -1;
}

#endif
