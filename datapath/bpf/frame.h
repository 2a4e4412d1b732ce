/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading and changing a frame by offset, the same for XDP and tc.
 *
 * `skb` is a constant in all callers: the type of `ctx`. In an skb, changes
 * must keep the kernel's checksum state valid, which is what the helpers are
 * for; an XDP frame is just bytes. Functions return 0, or negative if the frame
 * is too short.
 */
#ifndef OXP_FRAME_H
#define OXP_FRAME_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "checksum.h"

static __always_inline int frame_load(void *ctx, const bool skb, __u32 offset,
				      void *to, __u32 length)
{
	if (skb)
		return bpf_skb_load_bytes(ctx, offset, to, length);
	return bpf_xdp_load_bytes(ctx, offset, to, length);
}

/* For bytes whose change is offset by that of a checksum in the packet. */
static __always_inline int frame_store(void *ctx, const bool skb, __u32 offset,
				       void *from, __u32 length)
{
	if (skb)
		return bpf_skb_store_bytes(ctx, offset, from, length, 0);
	return bpf_xdp_store_bytes(ctx, offset, from, length);
}

/* For bytes that no checksum in the packet covers. */
static __always_inline int frame_store_bare(void *ctx, const bool skb,
					    __u32 offset, void *from,
					    __u32 length)
{
	if (skb)
		return bpf_skb_store_bytes(ctx, offset, from, length,
					   BPF_F_RECOMPUTE_CSUM);
	return bpf_xdp_store_bytes(ctx, offset, from, length);
}

/* RFC 1624, equation 3; `change` is the sum of the new words and the
 * complements of the old ones. */
static __always_inline int frame_fix(void *ctx, __u32 offset, __u32 change,
				     const bool zero_is_none)
{
	__be16 sum;
	int status = bpf_xdp_load_bytes(ctx, offset, &sum, sizeof(sum));

	if (status || (zero_is_none && !sum))
		return status;
	sum = ~fold_32((__u16)~sum + fold_32(change));
	if (zero_is_none && !sum)
		sum = 0xffff;
	return bpf_xdp_store_bytes(ctx, offset, &sum, sizeof(sum));
}

static __always_inline __u32 change16(__be16 from, __be16 to)
{
	return (__u32)(__u16)~from + to;
}

/* Fixes the IPv4 checksum at `offset` after a change of a 16-bit word. */
static __always_inline int frame_fix_ipv4(void *ctx, const bool skb,
					  __u32 offset, __be16 from, __be16 to)
{
	if (skb)
		return bpf_l3_csum_replace(ctx, offset, from, to, sizeof(to));
	return frame_fix(ctx, offset, change16(from, to), false);
}

/* Fixes a transport's checksum at `offset` after a change of a 16-bit word that
 * it covers, which may be any of the transport's header. */
static __always_inline int frame_fix_l4(void *ctx, const bool skb, __u32 offset,
					__be16 from, __be16 to, const bool udp)
{
	if (skb)
		return bpf_l4_csum_replace(
			ctx, offset, from, to,
			sizeof(to) | (udp ? BPF_F_MARK_MANGLED_0 : 0));
	return frame_fix(ctx, offset, change16(from, to), udp);
}

/* The same after a change of an address; `change` is from bpf_csum_diff(). */
static __always_inline int frame_fix_pseudo(void *ctx, const bool skb,
					    __u32 offset, __u32 change,
					    const bool udp)
{
	if (skb)
		return bpf_l4_csum_replace(
			ctx, offset, 0, change,
			BPF_F_PSEUDO_HDR | (udp ? BPF_F_MARK_MANGLED_0 : 0));
	return frame_fix(ctx, offset, change, udp);
}

#endif
