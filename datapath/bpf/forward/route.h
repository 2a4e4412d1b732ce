/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OXP_NODE_FIB: the kernel's routes and neighbours instead of uplinks. The
 * lookup is for a packet received at the device, so the kernel must be allowed
 * to forward there. */
#ifndef OXP_ROUTE_H
#define OXP_ROUTE_H

#include "forward/block.h"
#include "forward/selected.h"

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

/* The packet as it will leave: rules, and the choice among several next hops,
 * may depend on all of it. */
static __always_inline void from_outer_v6(struct bpf_fib_lookup *fib,
					  const struct selected *selected)
{
	fib->flowinfo = bpf_htonl((__u32)head_tos(selected->head) << 20 |
				  (selected->entropy & 0xfffff));
	for (int i = 0; i < 4; i++)
		fib->ipv6_src[i] = config.source_v6[i];
	fib->ipv6_src[3] = outer_source(config.source_v6[3], config.entropy_v6,
					selected->entropy);
}

static __always_inline void from_outer_v4(struct bpf_fib_lookup *fib,
					  const struct selected *selected)
{
	fib->tos = head_tos(selected->head) & 0xfc;
	fib->ipv4_src = outer_source(config.source_v4, config.entropy_v4,
				     selected->entropy);
}

static __always_inline void from_shim(struct bpf_fib_lookup *fib,
				      const struct selected *selected,
				      __u32 outer_type)
{
	__be16 shim[SHIM_MAX / 2] = {};

	fib->l4_protocol = outer_protocol(outer_type, selected->v6);
	if (fib->l4_protocol != IPPROTO_UDP)
		return;
	push_shim(shim, outer_type, head_length(selected->head),
		  selected->entropy, 0, selected->v6);
	fib->sport = shim[0];
	fib->dport = shim[1];
}

/* Without an outer header the packet leaves as the client's. */
static __always_inline bool from_client(struct bpf_fib_lookup *fib,
					struct xdp_md *ctx,
					const struct selected *selected,
					__u8 dscp)
{
	const __be16 *ports;

	if (selected->v6) {
		const struct ipv6hdr *ip = at(ctx, selected->l3, sizeof(*ip));

		if (!ip)
			return false;
		fib->flowinfo = (*(const __be32 *)ip & bpf_htonl(0xfffff)) |
				bpf_htonl((__u32)dscp << 22);
		__builtin_memcpy(fib->ipv6_src, &ip->saddr, 16);
	} else {
		const struct iphdr *ip = at(ctx, selected->l3, sizeof(*ip));

		if (!ip)
			return false;
		fib->tos = dscp << 2;
		fib->ipv4_src = ip->saddr;
	}
	fib->l4_protocol = selected->protocol;
	if (selected->kind != KIND_WHOLE)
		return true;
	ports = at(ctx, selected->l4, 4);
	if (!ports)
		return false;
	fib->sport = ports[0];
	fib->dport = ports[1];
	return true;
}

static __always_inline void to_uplink(struct uplink *uplink,
				      const struct bpf_fib_lookup *fib, bool v6)
{
	__u8 *link = uplink->link[v6];

	uplink->ifindex = fib->ifindex;
	uplink->mtu = fib->mtu_result;
	uplink->link_length = ETH_HLEN;
	__builtin_memcpy(link, fib->dmac, ETH_ALEN);
	__builtin_memcpy(link + ETH_ALEN, fib->smac, ETH_ALEN);
	*(__be16 *)(link + 12) =
		v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
}

/* Fills in the uplink for a packet whose outer packet has `length` bytes.
 * Returns a BPF_FIB_LKUP_RET_* or a negative errno;
 * BPF_FIB_LKUP_RET_FRAG_NEEDED fills in only the MTU. */
__noinline int find_route(struct xdp_md *ctx, const struct selected *selected,
			  struct uplink *uplink, __u32 length)
{
	const struct member_head *member;
	struct bpf_fib_lookup fib = {};
	struct block_view view;
	__u32 outer_type;
	bool v6;
	int status;

	if (!selected || !uplink || !find_block(selected->block, &view) ||
	    selected->member >= view.block->members)
		return -1;
	member = member_of(&view, selected->member);
	outer_type = without_port(member->outer_type);
	v6 = is_outer_v6_of(selected, outer_type);
	fib.family = v6 ? AF_INET6 : AF_INET;
	if (v6)
		__builtin_memcpy(fib.ipv6_dst, member->outer, 16);
	else
		fib.ipv4_dst = member->outer[3];
	if (outer_type == OUTER_NONE) {
		if (!from_client(&fib, ctx, selected, view.block->dscp))
			return -1;
		/* as it will leave */
		if (member->outer_type & OUTER_PORT && fib.dport)
			fib.dport = member->port;
	} else {
		if (v6)
			from_outer_v6(&fib, selected);
		else
			from_outer_v4(&fib, selected);
		from_shim(&fib, selected, outer_type);
	}
	fib.ifindex = ctx->ingress_ifindex;
	fib.tot_len = length;
	status = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	to_uplink(uplink, &fib, v6);
	return status;
}

#endif
