/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * L3DSR: replaces the VIP with the member's address; the DSCP tells the member
 * which VIP it was.
 *
 *   before   | link | client -> VIP    ...
 *   after    | link | client -> member ...
 */
#ifndef OXP_DSCP_H
#define OXP_DSCP_H

#include "checksum.h"
#include "forward/block.h"
#include "forward/selected.h"

/* The checksum that covers the addresses; NULL: there is none to correct. */
static __always_inline __u16 *covering_checksum(struct xdp_md *ctx, __u32 l4,
						__u32 end, __u8 protocol,
						bool v6)
{
	__u32 offset = checksum_offset(protocol, v6);
	__u16 *check;

	if (!offset || l4 + offset + 2 > end)
		return NULL;
	check = at(ctx, l4 + offset, 2);
	if (check && protocol == IPPROTO_UDP && !*check)
		return NULL; /* sent without a checksum: RFC 768, RFC 6935 */
	return check;
}

static __always_inline void correct_covering(__u16 *check, __u8 protocol,
					     __u64 was, __u64 is)
{
	__u16 value = corrected(*check, was, is);

	/* in UDP, 0 means no checksum (RFC 768, RFC 8200) */
	*check = !value && protocol == IPPROTO_UDP ? 0xffff : value;
}

static __always_inline __u64 sum_v6(const __be32 *address)
{
	return (__u64)address[0] + address[1] + address[2] + address[3];
}

static __always_inline void rewrite_v4(struct iphdr *ip, __be32 member,
				       __u8 dscp)
{
	__u8 *tos = (__u8 *)ip + 1;
	__u8 marked = tos_with_dscp(*tos, dscp);

	ip->check = corrected(ip->check, (__u64)ip->daddr + (*tos << 8),
			      (__u64)member + (marked << 8));
	*tos = marked;
	ip->daddr = member;
}

static __always_inline void rewrite_v6(struct ipv6hdr *ip, const __be32 *member,
				       __u8 dscp)
{
	__be16 *first = (__be16 *)ip;
	__be32 *address = (__be32 *)&ip->daddr;

	*first = class_with_dscp(*first, dscp);
	for (int i = 0; i < 4; i++)
		address[i] = member[i];
}

/* Addresses the packet to the member. Returns 0, or -1 if the frame does not
 * match what was parsed. */
__noinline int rewrite(struct xdp_md *ctx, const struct selected *selected)
{
	const struct member_head *member;
	struct block_view view;
	__u64 was, is;
	__u16 *check;

	if (!selected || !find_block(selected->block, &view) ||
	    selected->member >= view.block->members)
		return -1;
	member = member_of(&view, selected->member);
	if (selected->v6) {
		struct ipv6hdr *ip = at(ctx, selected->l3, sizeof(*ip));

		if (!ip)
			return -1;
		was = sum_v6((const __be32 *)&ip->daddr);
		is = sum_v6(member->outer);
		rewrite_v6(ip, member->outer, view.block->dscp);
	} else {
		struct iphdr *ip = at(ctx, selected->l3, sizeof(*ip));

		if (!ip)
			return -1;
		was = ip->daddr;
		is = member->outer[3];
		rewrite_v4(ip, member->outer[3], view.block->dscp);
	}
	if (selected->kind == KIND_LATER)
		return 0;
	check = covering_checksum(ctx, selected->l4,
				  selected->l3 + head_length(selected->head),
				  selected->protocol, selected->v6);
	if (check)
		correct_covering(check, selected->protocol, was, is);
	return 0;
}

#endif
