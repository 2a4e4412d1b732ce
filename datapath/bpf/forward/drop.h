/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Drops that are counted for a service as well, by the service's number or
 * block if either is at hand anyway. The fast path would need a register just
 * for drops, so there the service is looked up again from the packet.
 *
 * As with drop(): only while the frame still has its original length.
 */
#ifndef OXP_DROP_H
#define OXP_DROP_H

#include "forward/block.h"
#include "forward/count.h"
#include "forward/lookup.h"
#include "forward/parse.h"
#include "forward/record.h"
#include "forward/record_slot.h"

static __always_inline void count_drop(__u32 service)
{
	struct traffic_counters *traffic;

	RECORD(SERVICE, service);
	traffic = traffic_in(&service_counters, services_part, service);
	if (traffic)
		events_of(traffic, services_part)->drops++;
}

COLD int drop_of(struct xdp_md *ctx, __u32 outcome, __u32 service)
{
	count_drop(service);
	count(ctx, outcome);
	return XDP_DROP;
}

/*
 * Takes the line of the service's block; 0: the service is unknown. Does not
 * call drop_of(), as each call takes 32 of the stack's 512 bytes.
 */
COLD int drop_at(struct xdp_md *ctx, __u32 outcome, __u32 line)
{
	struct block_view view;

	if (line && find_block(line, &view))
		count_drop(view.block->service);
	count(ctx, outcome);
	return XDP_DROP;
}

/* Finds the line of a packet's service, for packets that have neither IPv4
 * options nor IPv6 extension headers and are no fragments. */
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
	if (records && outcome == OXP_DROP_NO_MEMBER)
		record_plain_slot(ctx, find_plain(ctx));
	count(ctx, outcome);
	return XDP_DROP;
}

#endif
