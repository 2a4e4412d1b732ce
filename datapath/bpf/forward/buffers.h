/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of several buffers (xdp.frags, since Linux 5.18): programs can read
 * the first one directly, and drivers decide how much of a frame that is.
 * Missing headers are pulled into it if the kernel can (since Linux 6.18).
 */
#ifndef OXP_BUFFERS_H
#define OXP_BUFFERS_H

#include "forward/count.h"
#include "forward/parse.h"

/* Enough for the headers of all but crafted packets. */
#define HEADERS_MAX 256

extern int bpf_xdp_pull_data(struct xdp_md *ctx, __u32 length) __ksym __weak;

static __always_inline bool is_split(struct xdp_md *ctx)
{
	return first_length(ctx) < frame_length(ctx);
}

/* Whether headers may be in later buffers. */
static __always_inline bool lacks_headers(struct xdp_md *ctx)
{
	return first_length(ctx) < HEADERS_MAX && is_split(ctx);
}

/* Pulls headers into the first buffer. Returns whether the buffer changed, so
 * that the frame must be parsed again. */
__noinline int pull_headers(struct xdp_md *ctx)
{
	__u32 length;

	if (!feature_pull || !lacks_headers(ctx))
		return false;
	length = frame_length(ctx);
	if (length > HEADERS_MAX)
		length = HEADERS_MAX;
	return !bpf_xdp_pull_data(ctx, length);
}

/* For a packet to a VIP whose headers could not be read. */
COLD int drop_unread(struct xdp_md *ctx)
{
	count(ctx,
	      lacks_headers(ctx) ? OXP_DROP_MULTI_BUFFER : OXP_DROP_MALFORMED);
	return XDP_DROP;
}

/* Whether the device's driver sends frames of several buffers. */
__noinline int sends_buffers(__u32 ifindex)
{
	const struct uplink_set *set;
	__u32 active;

	active = READ_ONCE(config.active_uplinks) & 1;
	set = bpf_map_lookup_elem(&uplinks, &active);
	if (!set)
		return false;
	for (__u32 i = 0; i < OXP_UPLINKS_MAX; i++)
		if (set->uplink[i].ifindex == ifindex)
			return set->uplink[i].sends_buffers;
	return false;
}

#endif
