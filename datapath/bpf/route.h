/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OXP_NODE_FIB: the kernel's routes and neighbours in place of uplinks. The
 * lookup is as of a packet that came in at the device, so the kernel must be
 * allowed to forward there. */
#ifndef OXP_ROUTE_H
#define OXP_ROUTE_H

#include "encap.h"
#include "parcel.h"

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

static __always_inline void from_parcel_v6(struct bpf_fib_lookup *fib,
					   const struct parcel *parcel,
					   const struct node_config *node,
					   const struct block_member *member)
{
	fib->family = AF_INET6;
	fib->flowinfo = bpf_htonl((__u32)head_tos(parcel->head) << 20);
	for (int i = 0; i < 4; i++) {
		fib->ipv6_src[i] = node->source_v6[i];
		fib->ipv6_dst[i] = member->outer[i];
	}
	fib->ipv6_src[3] = outer_source(node->source_v6[3], node->entropy_v6,
					parcel->entropy);
}

static __always_inline void from_parcel_v4(struct bpf_fib_lookup *fib,
					   const struct parcel *parcel,
					   const struct node_config *node,
					   const struct block_member *member)
{
	fib->family = AF_INET;
	fib->tos = head_tos(parcel->head) & 0xfc;
	fib->ipv4_src = outer_source(node->source_v4, node->entropy_v4,
				     parcel->entropy);
	fib->ipv4_dst = member->outer[3];
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

/* Fills the uplink for the parcel, whose outer packet has `length` bytes.
 * Returns a BPF_FIB_LKUP_RET_* or a negative errno;
 * BPF_FIB_LKUP_RET_FRAG_NEEDED fills in the MTU only. */
__noinline int find_route(struct xdp_md *ctx, const struct parcel *parcel,
			  struct uplink *uplink, __u32 length)
{
	const struct service_block *block;
	const struct block_member *member;
	const struct node_config *node;
	struct bpf_fib_lookup fib = {};
	__u32 zero = 0;
	bool v6;
	int status;

	if (!parcel || !uplink || parcel->member >= OXP_MEMBERS_MAX)
		return -1;
	block = find_block(parcel->block);
	node = bpf_map_lookup_elem(&config, &zero);
	if (!block || !node)
		return -1;
	member = member_of(block, parcel->member);
	v6 = is_outer_v6_of(parcel, member->way);
	if (v6)
		from_parcel_v6(&fib, parcel, node, member);
	else
		from_parcel_v4(&fib, parcel, node, member);
	fib.ifindex = ctx->ingress_ifindex;
	fib.tot_len = length;
	status = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	to_uplink(uplink, &fib, v6);
	return status;
}

#endif
