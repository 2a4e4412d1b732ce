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

/* Fills the uplink for the outer packet from `source` to `destination` of
 * `length` bytes. Returns a BPF_FIB_LKUP_RET_* or a negative errno;
 * BPF_FIB_LKUP_RET_FRAG_NEEDED fills only the MTU. */
static __always_inline int find_route(struct xdp_md *ctx, struct uplink *uplink,
				      const __be32 *source,
				      const __be32 *destination, __u32 length,
				      __u8 tos, bool v6)
{
	struct bpf_fib_lookup fib = {
		.family = v6 ? AF_INET6 : AF_INET,
		.ifindex = ctx->ingress_ifindex,
		.tot_len = length,
	};
	__u8 *link = uplink->link[v6];
	int status;

	if (v6) {
		fib.flowinfo = bpf_htonl((__u32)tos << 20);
		for (int i = 0; i < 4; i++) {
			fib.ipv6_src[i] = source[i];
			fib.ipv6_dst[i] = destination[i];
		}
	} else {
		fib.tos = tos & 0xfc;
		fib.ipv4_src = source[3];
		fib.ipv4_dst = destination[3];
	}
	status = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	uplink->ifindex = fib.ifindex;
	uplink->mtu = fib.mtu_result;
	uplink->link_length = ETH_HLEN;
	__builtin_memcpy(link, fib.dmac, ETH_ALEN);
	__builtin_memcpy(link + ETH_ALEN, fib.smac, ETH_ALEN);
	*(__be16 *)(link + 12) =
		v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	return status;
}

#endif
