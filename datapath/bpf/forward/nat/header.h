/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rewrites the IP header and makes room for the link header; between families
 * as in RFC 7915:
 *
 *   before   | link | IPv4, options         | TCP, UDP ...
 *   after    | link | IPv6 | maybe fragment | TCP, UDP ...
 */
#ifndef OXP_NAT_HEADER_H
#define OXP_NAT_HEADER_H

#include "forward/nat/ends.h"
#include "outer.h"

/* IPv6 packets up to this size may have to be fragmented as IPv4: RFC 7915,
 * 5.1. */
#define NAT_SMALL 1260

struct nat_fragment_header {
	__u8 next;
	__u8 reserved;
	__be16 offset; /* and IPV6_MORE_FRAGMENTS */
	__be32 id;
};

/* Maximum number of IPv4 options that are parsed. */
#define NAT_OPTIONS 10

/* Whether an IPv4 packet has a source route that is not finished (RFC 7915,
 * section 4.1): the option's pointer is not beyond its length. */
__noinline int nat_is_routed(struct xdp_md *ctx, const struct packet *packet)
{
	__u32 offset;

	if (!packet)
		return false;
	offset = packet->l3 + sizeof(struct iphdr);
	for (int i = 0; i < NAT_OPTIONS && offset + 3 <= packet->l4; i++) {
		const __u8 *option = at(ctx, offset, 3);

		if (!option || option[0] == 0)
			return false;
		if (option[0] == 1) {
			offset++;
			continue;
		}
		if (option[0] == IPOPT_LSRR || option[0] == IPOPT_SSRR)
			return option[2] <= option[1];
		if (option[1] < 2)
			return false;
		offset += option[1];
	}
	return false;
}

/* Whether an IPv6 fragment has extension headers after the fragment header (RFC
 * 7915, section 5.1), as its later fragments do. They count as payload. */
static __always_inline bool nat_is_extended(const struct packet *packet)
{
	return (packet->kind == KIND_FIRST || packet->kind == KIND_LATER) &&
	       is_extension(packet->fragment_protocol);
}

/* Fields of a header that are kept between families. */
struct nat_head {
	__u32 length; /* of the IP payload */
	__be32 id;    /* of a fragment; of other packets one for IPv4 */
	__u16 offset; /* of a fragment, in bytes */
	__u8 tos;
	__u8 ttl; /* as received */
	__u8 more;
	__u8 fragment;
	__u8 protocol;
	__u8 reserved;
};

static __always_inline void nat_read_v4(const struct iphdr *ip,
					struct nat_head *head)
{
	__u16 fragment = bpf_ntohs(ip->frag_off);

	head->tos = ip->tos;
	head->ttl = ip->ttl;
	head->id = bpf_htonl(bpf_ntohs(ip->id));
	head->offset = (fragment & IP_FRAGMENT_OFFSET) * 8;
	head->more = !!(fragment & IP_MORE_FRAGMENTS);
}

static __always_inline void nat_read_v6(const struct ipv6hdr *ip,
					struct nat_head *head)
{
	head->tos = bpf_ntohs(*(const __be16 *)ip) >> 4;
	head->ttl = ip->hop_limit;
}

/* Reads the header in front of packet->l4, including fragment fields. */
static __always_inline bool nat_read_head(struct xdp_md *ctx,
					  const struct packet *packet,
					  struct nat_head *head)
{
	head->length = packet->end - packet->l4;
	head->protocol = packet->protocol;
	head->fragment =
		packet->kind == KIND_FIRST || packet->kind == KIND_LATER;
	if (packet->v6) {
		const struct nat_fragment_header *fragment;
		const struct ipv6hdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return false;
		nat_read_v6(ip, head);
		if (!head->fragment)
			return true;
		/* the last header, as !nat_is_extended() */
		fragment = at(ctx, packet->l4 - sizeof(*fragment),
			      sizeof(*fragment));
		if (!fragment)
			return false;
		head->id = fragment->id;
		head->offset =
			bpf_ntohs(fragment->offset) & IPV6_FRAGMENT_OFFSET;
		head->more = bpf_ntohs(fragment->offset) & IPV6_MORE_FRAGMENTS;
	} else {
		const struct iphdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return false;
		nat_read_v4(ip, head);
	}
	return true;
}

static __always_inline void nat_put_v4(struct iphdr *ip,
				       const struct nat_head *head,
				       const struct nat_ends *ends, __u8 ttl)
{
	__u32 *word = (__u32 *)ip;
	__u32 length = head->length + sizeof(*ip);
	__be16 id = 0, fragment = bpf_htons(IP_DONT_FRAGMENT);

	if (head->fragment) {
		id = bpf_htons(bpf_ntohl(head->id));
		fragment = bpf_htons(head->offset / 8 |
				     (head->more ? IP_MORE_FRAGMENTS : 0));
	} else if (length <= NAT_SMALL) {
		id = head->id;
		fragment = 0;
	}
	word[0] = 0x45 | head->tos << 8 | (__u32)bpf_htons(length) << 16;
	word[1] = id | (__u32)fragment << 16;
	word[2] = ttl | head->protocol << 8;
	word[3] = ends->source[3];
	word[4] = ends->destination[3];
	word[2] |= (__u32)(__u16)~fold((__u64)word[0] + word[1] + word[2] +
				       word[3] + word[4])
		   << 16;
}

static __always_inline void nat_put_v6(struct ipv6hdr *ip,
				       const struct nat_head *head,
				       const struct nat_ends *ends, __u8 ttl)
{
	__u32 *word = (__u32 *)ip;
	__u32 more = head->fragment ? sizeof(struct nat_fragment_header) : 0;
	__u8 next = head->fragment ? IPPROTO_FRAGMENT : head->protocol;

	word[0] = bpf_htonl(6U << 28 | (__u32)head->tos << 20);
	word[1] =
		bpf_htons(head->length + more) | next << 16 | (__u32)ttl << 24;
	for (int i = 0; i < 4; i++) {
		word[2 + i] = ends->source[i];
		word[6 + i] = ends->destination[i];
	}
}

static __always_inline void
nat_put_fragment(struct nat_fragment_header *fragment,
		 const struct nat_head *head)
{
	fragment->next = head->protocol;
	fragment->reserved = 0;
	fragment->offset = bpf_htons(head->offset | head->more);
	fragment->id = head->id;
}

/* Writes the header after `link_length` bytes for the link header; moves the
 * frame's start so that the payload follows. */
__noinline int nat_replace_header(struct xdp_md *ctx,
				  const struct packet *packet, __u32 number,
				  __u32 what, __u32 link_length)
{
	struct nat_head head = {};
	struct nat_ends ends;
	__u32 length;
	void *ip;

	if (!packet || !nat_ends_of(number, what, false, &ends) ||
	    !nat_read_head(ctx, packet, &head))
		return OXP_DROP_INTERNAL;
	if (!head.fragment)
		head.id = bpf_get_prandom_u32();
	length = what & NAT_OUT_V6 ? sizeof(struct ipv6hdr)
				   : sizeof(struct iphdr);
	if (what & NAT_OUT_V6 && head.fragment)
		length += sizeof(struct nat_fragment_header);
	if (bpf_xdp_adjust_head(ctx, (int)(packet->l4 - length - link_length)))
		return OXP_DROP_NO_HEADROOM;
	if (what & NAT_OUT_V6) {
		ip = at(ctx, link_length, sizeof(struct ipv6hdr));
		if (!ip)
			return OXP_DROP_INTERNAL;
		nat_put_v6(ip, &head, &ends, head.ttl - 1);
		if (!head.fragment)
			return OXP_FORWARDED;
		ip = at(ctx, link_length + sizeof(struct ipv6hdr),
			sizeof(struct nat_fragment_header));
		if (!ip)
			return OXP_DROP_INTERNAL;
		nat_put_fragment(ip, &head);
	} else {
		ip = at(ctx, link_length, sizeof(struct iphdr));
		if (!ip)
			return OXP_DROP_INTERNAL;
		nat_put_v4(ip, &head, &ends, head.ttl - 1);
	}
	return OXP_FORWARDED;
}

static __always_inline void nat_correct_v4(struct iphdr *ip,
					   const struct nat_ends *ends)
{
	__u64 was = (__u64)ip->saddr + ip->daddr + ip->ttl;
	__u64 is = (__u64)ends->source[3] + ends->destination[3] +
		   (__u8)(ip->ttl - 1);

	ip->check = corrected(ip->check, was, is);
	ip->ttl--;
	ip->saddr = ends->source[3];
	ip->daddr = ends->destination[3];
}

static __always_inline void nat_correct_v6(struct ipv6hdr *ip,
					   const struct nat_ends *ends)
{
	__u32 *word = (__u32 *)ip;

	ip->hop_limit--;
	for (int i = 0; i < 4; i++) {
		word[2 + i] = ends->source[i];
		word[6 + i] = ends->destination[i];
	}
}

/* Rewrites within one family: options and extension headers stay. */
__noinline int nat_correct_header(struct xdp_md *ctx,
				  const struct packet *packet, __u32 number,
				  __u32 what, __u32 link_length)
{
	struct nat_ends ends;
	void *ip;

	if (!packet || !nat_ends_of(number, what, false, &ends))
		return OXP_DROP_INTERNAL;
	if (packet->v6) {
		ip = at(ctx, packet->l3, sizeof(struct ipv6hdr));
		if (!ip)
			return OXP_DROP_INTERNAL;
		nat_correct_v6(ip, &ends);
	} else {
		ip = at(ctx, packet->l3, sizeof(struct iphdr));
		if (!ip)
			return OXP_DROP_INTERNAL;
		nat_correct_v4(ip, &ends);
	}
	if (bpf_xdp_adjust_head(ctx, (int)(packet->l3 - link_length)))
		return OXP_DROP_NO_HEADROOM;
	return OXP_FORWARDED;
}

#endif
