/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lowers the MSS that a member offers. A client's segments reach the member
 * inside a tunnel and are as long as the member's SYN-ACK (or SYN) permits.
 * That segment goes to the client directly and passes no LB node, so only the
 * member or its hypervisor can lower it.
 */
#ifndef OXP_MSS_H
#define OXP_MSS_H

#include "transport.h"

static __always_inline __be16 swapped(__be16 value)
{
	return __builtin_bswap16(value);
}

/* 1: lowered; negative: partly changed. */
static __always_inline int set_mss(void *ctx, const bool skb,
				   const struct transport *transport,
				   __u32 option, __u16 limit)
{
	__u32 at = option + 2;
	__be16 from, to = bpf_htons(limit);
	__u32 sum = transport->offset + offsetof(struct tcphdr, check);

	if (frame_load(ctx, skb, at, &from, sizeof(from)) ||
	    bpf_ntohs(from) <= limit)
		return 0;
	if (frame_store(ctx, skb, at, &to, sizeof(to)))
		return -1;
	/* After an odd number of NOPs the value straddles two words. */
	if ((at - transport->offset) & 1) {
		from = swapped(from);
		to = swapped(to);
	}
	if (frame_fix_l4(ctx, skb, sum, from, to, false))
		return -1;
	return 1;
}

/* `limit` 0: none. Only for segments with SYN. */
static __always_inline int clamp_mss(void *ctx, const bool skb,
				     const struct transport *transport,
				     __u16 limit)
{
	__u32 at, end;
	struct tcphdr tcp;

	if (!limit || transport->later || transport->protocol != IPPROTO_TCP ||
	    frame_load(ctx, skb, transport->offset, &tcp, sizeof(tcp)) ||
	    !tcp.syn)
		return 0;
	at = transport->offset + sizeof(tcp);
	end = transport->offset + tcp.doff * 4;
	/* at most 40 bytes of options, each at least one byte */
	for (int i = 0; i < 40; i++) {
		struct {
			__u8 kind, length;
		} option;

		if (at + TCP_OPTION_MSS_LENGTH > end ||
		    frame_load(ctx, skb, at, &option, sizeof(option)) ||
		    option.kind == TCP_OPTION_END)
			return 0;
		if (option.kind == TCP_OPTION_NOP) {
			at++;
			continue;
		}
		if (option.kind == TCP_OPTION_MSS &&
		    option.length == TCP_OPTION_MSS_LENGTH)
			return set_mss(ctx, skb, transport, at, limit);
		if (option.length < 2)
			return 0;
		at += option.length;
	}
	return 0;
}

#endif
