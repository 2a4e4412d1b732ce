/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OXP_NODE_FIB: the kernel's routes and neighbours in place of uplinks. */
#ifndef OXP_ROUTE_H
#define OXP_ROUTE_H

#include "maps.h"
#include "parse.h"

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

/* Passed to a function of its own by reference, so without holes. */
struct question {
	__be32 source[4]; /* of the outer packet; IPv4 in the last word */
	__be32 destination[4];
	__u32 length;
	__u16 v6;
	__u16 tos;
};

/* Fills the uplink. Returns a BPF_FIB_LKUP_RET_* or a negative errno;
 * BPF_FIB_LKUP_RET_FRAG_NEEDED fills only the MTU. */
__noinline int find_route(struct xdp_md *ctx, const struct question *question,
			  struct uplink *uplink)
{
	struct bpf_fib_lookup fib = {};
	__u8 *link;
	int status;

	if (!question || !uplink)
		return -1;
	fib.ifindex = ctx->ingress_ifindex;
	fib.tot_len = question->length;
	if (question->v6) {
		fib.family = AF_INET6;
		fib.flowinfo = bpf_htonl((__u32)question->tos << 20);
		for (int i = 0; i < 4; i++) {
			fib.ipv6_src[i] = question->source[i];
			fib.ipv6_dst[i] = question->destination[i];
		}
	} else {
		fib.family = AF_INET;
		fib.tos = question->tos & 0xfc;
		fib.ipv4_src = question->source[3];
		fib.ipv4_dst = question->destination[3];
	}
	status = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	uplink->ifindex = fib.ifindex;
	uplink->mtu = fib.mtu_result;
	uplink->link_length = ETH_HLEN;
	link = uplink->link[question->v6 != 0];
	__builtin_memcpy(link, fib.dmac, ETH_ALEN);
	__builtin_memcpy(link + ETH_ALEN, fib.smac, ETH_ALEN);
	*(__be16 *)(link + 12) =
		question->v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	return status;
}

#endif
