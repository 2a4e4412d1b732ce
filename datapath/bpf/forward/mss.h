/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The MSS in a client's SYN limits what the member sends, which goes to the
 * client directly. The member's SYN-ACK limits what the client sends, but does
 * not pass this node: bpf/mss.h clamps that. Here the client's offer is limited
 * to what the path through this node carries, so that members whose stack
 * replies with the smaller of both offers need nothing else. */
#ifndef OXP_MSS_H
#define OXP_MSS_H

#include "checksum.h"
#include "forward/parse.h"

#define TCP_OPTIONS_MAX 10

/* Offset of the option, 0 if there is none. */
__noinline __u32 find_mss(struct xdp_md *ctx, __u32 from, __u32 to)
{
	for (int i = 0; i < TCP_OPTIONS_MAX && from + 4 <= to; i++) {
		const __u8 *option = at(ctx, from, 2);

		if (!option || option[0] == TCP_OPTION_END)
			return 0;
		if (option[0] == TCP_OPTION_NOP) {
			from++;
			continue;
		}
		if (option[0] == TCP_OPTION_MSS)
			return option[1] == TCP_OPTION_MSS_LENGTH ? from : 0;
		if (option[1] < 2)
			return 0;
		from += option[1];
	}
	return 0;
}

/* The TCP header is at l4; `end` as in struct packet. */
__noinline int clamp_mss(struct xdp_md *ctx, __u32 l4, __u32 end, __u32 mss)
{
	struct tcphdr *tcp = at(ctx, l4, sizeof(*tcp));
	__u32 options, was, offset;
	__u8 *value;

	if (!tcp)
		return 0;
	options = l4 + 4 * tcp->doff;
	if (options > end)
		return 0;
	offset = find_mss(ctx, l4 + sizeof(*tcp), options);
	value = at(ctx, offset, 4);
	if (!offset || !value)
		return 0;
	was = value[2] << 8 | value[3];
	if (was <= mss)
		return 0;
	/* In a sum of 16-bit words a byte at an odd offset counts shifted. */
	if ((offset - l4) & 1) {
		tcp->check = corrected(tcp->check, bpf_htons(was) << 8,
				       bpf_htons(mss) << 8);
	} else {
		tcp->check =
			corrected(tcp->check, bpf_htons(was), bpf_htons(mss));
	}
	value[2] = mss >> 8;
	value[3] = mss;
	return 0;
}

/* For most SYNs: without options, or with MSS first. Others use clamp_mss(). */
static __always_inline void clamp_first_mss(struct xdp_md *ctx, __u32 l4,
					    __u32 end, __u32 mss)
{
	struct tcphdr *tcp = at(ctx, l4, sizeof(*tcp));
	__u8 *option;
	__u32 was;

	if (!tcp || tcp->doff <= sizeof(*tcp) / 4)
		return;
	option = at(ctx, l4 + sizeof(*tcp), 4);
	if (unlikely(!option || option[0] != TCP_OPTION_MSS ||
		     option[1] != TCP_OPTION_MSS_LENGTH ||
		     l4 + 4 * tcp->doff > end)) {
		clamp_mss(ctx, l4, end, mss);
		return;
	}
	was = option[2] << 8 | option[3];
	if (was <= mss)
		return;
	tcp->check = corrected(tcp->check, bpf_htons(was), bpf_htons(mss));
	option[2] = mss >> 8;
	option[3] = mss;
}

#endif
