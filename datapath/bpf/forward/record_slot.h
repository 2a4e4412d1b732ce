/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records a packet's slot, and the slot's owners. */
#ifndef OXP_RECORD_SLOT_H
#define OXP_RECORD_SLOT_H

#include "forward/block.h"
#include "forward/parse.h"
#include "forward/record.h"
#include "forward/select.h"

/* For a packet of the fast path, whose hash is computed again; no other packet
 * is recorded. `line` is that of its service's block. */
__noinline int record_plain_slot(struct xdp_md *ctx, __u32 line)
{
	const struct ipv6hdr *v6;
	const struct iphdr *v4;
	struct block_view view;
	struct flow flow = {};
	const __be16 *ports;
	__u64 hash;
	__u32 l3;

	if (!records || !find_block(line, &view))
		return 0;
	if (parse_link(ctx, &l3) == bpf_htons(ETH_P_IP)) {
		v4 = at(ctx, l3, sizeof(*v4) + 4);
		if (!v4 || v4->ihl != 5 ||
		    v4->frag_off &
			    bpf_htons(IP_FRAGMENT_OFFSET | IP_MORE_FRAGMENTS))
			return 0;
		ports = (const __be16 *)(v4 + 1);
		flow.source[3] = v4->saddr;
		flow.protocol = v4->protocol;
		flow.ports = (__u32)ports[0] << 16 | ports[1];
		if (view.block->flags & OXP_SERVICE_SOURCE)
			cut_source(&flow, false, view.block);
		hash = seeded_hash_v4(flow.source[3], v4->daddr, flow.ports,
				      flow.protocol, FLOW_SEED);
	} else {
		v6 = at(ctx, l3, sizeof(*v6) + 4);
		if (!v6 || !has_ports(v6->nexthdr))
			return 0;
		ports = (const __be16 *)(v6 + 1);
		__builtin_memcpy(flow.source, &v6->saddr, 16);
		flow.protocol = v6->nexthdr;
		flow.ports = (__u32)ports[0] << 16 | ports[1];
		if (view.block->flags & OXP_SERVICE_SOURCE)
			cut_source(&flow, true, view.block);
		hash = seeded_hash_v6(flow.source, (const __be32 *)&v6->daddr,
				      flow.ports, flow.protocol, FLOW_SEED);
	}
	record_slot(&view, flow_position(hash));
	return 0;
}

#endif
