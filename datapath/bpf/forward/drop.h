/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Drops that are counted for a service as well. By number or by block where
 * either is at hand anyway. The fast path would have to keep one in a register
 * for drops alone: there the packet says once more which service it is for.
 *
 * As drop(): only where the frame still has the length that it came with.
 */
#ifndef OXP_DROP_H
#define OXP_DROP_H

#include "forward/block.h"
#include "forward/count.h"
#include "forward/lookup.h"
#include "forward/parse.h"

static __always_inline void count_drop(__u32 service)
{
	struct traffic_counters *traffic =
		traffic_in(&service_counters, services_half, service);

	if (traffic)
		events_of(traffic, services_half)->drops++;
}

COLD int drop_of(struct xdp_md *ctx, __u32 outcome, __u32 service)
{
	count_drop(service);
	count(ctx, outcome);
	return XDP_DROP;
}

/*
 * By the line of the service's block; 0: it is not known which one it is. Not
 * by drop_of(): each call takes 32 bytes of the 512 of the stack.
 */
COLD int drop_at(struct xdp_md *ctx, __u32 outcome, __u32 line)
{
	struct block_view view;

	if (line && find_block(line, &view))
		count_drop(view.block->service);
	count(ctx, outcome);
	return XDP_DROP;
}

/* The line of the service that a packet is for which has neither IPv4 options
 * nor IPv6 extension headers and is no fragment. */
static __always_inline __s64 find_plain(struct xdp_md *ctx)
{
	const struct ipv6hdr *v6;
	const struct iphdr *v4;
	const __be16 *ports;
	__u32 l3;
	__be16 type = parse_link(ctx, &l3);

	if (type == bpf_htons(ETH_P_IP)) {
		v4 = at(ctx, l3, sizeof(*v4) + 4);
		if (!v4)
			return NOT_FOUND;
		ports = (const __be16 *)(v4 + 1);
		return find_v4(v4->daddr, ports[1], v4->protocol);
	}
	v6 = at(ctx, l3, sizeof(*v6) + 4);
	if (type != bpf_htons(ETH_P_IPV6) || !v6)
		return NOT_FOUND;
	ports = (const __be16 *)(v6 + 1);
	return find_v6((const __be32 *)&v6->daddr, ports[1], v6->nexthdr);
}

/* For such packets of a service. */
COLD int count_plain_drop(struct xdp_md *ctx)
{
	__s64 line = find_plain(ctx);
	struct block_view view;

	if (line != NOT_FOUND && find_block(line, &view))
		count_drop(view.block->service);
	return 0;
}

COLD int drop_plain(struct xdp_md *ctx, __u32 outcome)
{
	count_plain_drop(ctx);
	count(ctx, outcome);
	return XDP_DROP;
}

#endif
