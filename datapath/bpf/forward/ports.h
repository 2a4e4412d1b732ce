/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * OUTER_PORT: replaces the service's port with the member's in the client's
 * packet, and in the packet that an ICMP error quotes, which the member sent.
 * The member's replies do not pass the node: the member restores the service's
 * port itself.
 *
 *   before   client -> VIP:service      error about VIP:service -> client
 *   after    client -> VIP:member       error about VIP:member -> client
 */
#ifndef OXP_PORTS_H
#define OXP_PORTS_H

#include "checksum.h"
#include "forward/block.h"
#include "forward/dscp.h"
#include "forward/quote.h"
#include "forward/record.h"
#include "forward/selected.h"

/* Leaves the quoted packet's checksum unchanged: few quotes are long enough to
 * include it, and nobody verifies it. */
__noinline int rewrite_quoted_port(struct xdp_md *ctx, __u32 icmp, __u32 end,
				   __u32 v6, __u32 port)
{
	struct packet quote = {.l3 = icmp + ICMP_HEADER, .end = end, .v6 = v6};
	__u16 *check, was;
	__be16 *source;

	if (parse_quote(ctx, &quote))
		return -1;
	source = at(ctx, quote.l4, sizeof(*source));
	if (!source)
		return -1;
	was = *source;
	*source = port;
	check = at(ctx, icmp + ICMP_CHECKSUM, sizeof(*check));
	if (!check)
		return -1;
	*check = corrected(*check, was, port);
	return 0;
}

/* Returns 0, or -1 if the frame does not match what was parsed. */
__noinline int rewrite_port(struct xdp_md *ctx, const struct selected *selected)
{
	struct block_view view;
	__u16 *check, was;
	__be16 *to, port;
	__u32 end;

	if (!selected || !find_block(selected->block, &view) ||
	    selected->member >= view.block->members)
		return -1;
	port = member_of(&view, selected->member)->port;
	RECORD(PORT, bpf_ntohs(port));
	end = selected->l3 + head_length(selected->head);
	if (selected->kind == KIND_LATER)
		return 0;
	if (selected->kind == KIND_QUOTED)
		return rewrite_quoted_port(ctx, selected->l4, end, selected->v6,
					   port);
	to = at(ctx, selected->l4 + 2, sizeof(*to));
	if (!to)
		return -1;
	was = *to;
	*to = port;
	check = covering_checksum(ctx, selected->l4, end, selected->protocol,
				  selected->v6);
	if (check)
		correct_covering(check, selected->protocol, was, port);
	return 0;
}

#endif
