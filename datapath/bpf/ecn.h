/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ECN field of a decapsulated packet: RFC 6040, section 4.2. */
#ifndef OXP_ECN_H
#define OXP_ECN_H

#include "frame.h"
#include "protocols.h"

enum ecn {
	NOT_ECT,
	ECT_1,
	ECT_0,
	CE
};
#define ECN_MASK 3

/* Negative: drop the packet, the only signal to a sender without ECN. */
static __always_inline int combined_ecn(__u8 inner, __u8 outer)
{
	switch (inner) {
	case NOT_ECT:
		return outer == CE ? -1 : NOT_ECT;
	case ECT_0:
		return outer == CE || outer == ECT_1 ? outer : ECT_0;
	case ECT_1:
		return outer == CE ? CE : ECT_1;
	default:
		return CE;
	}
}

/* For the IP header at `ip`, with the Ethertype `type`. */
static __always_inline int set_ecn(void *ctx, const bool skb, __u32 ip,
				   __be16 type, __u8 ecn)
{
	__be16 from, to;

	if (frame_load(ctx, skb, ip, &from, sizeof(from)))
		return -1;
	if (type == bpf_htons(ETH_P_IP)) {
		to = (from & bpf_htons(0xffff & ~ECN_MASK)) | bpf_htons(ecn);
		if (frame_store(ctx, skb, ip, &to, sizeof(to)))
			return -1;
		return frame_fix_ipv4(
			ctx, skb, ip + offsetof(struct iphdr, check), from, to);
	}
	to = (from & bpf_htons(0xffff & ~(ECN_MASK << 4))) |
	     bpf_htons(ecn << 4);
	return frame_store_bare(ctx, skb, ip, &to, sizeof(to));
}

#endif
