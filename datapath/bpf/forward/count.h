/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters are each CPU's own, and programs do not nest: plain additions are
 * exact. */
#ifndef OXP_COUNT_H
#define OXP_COUNT_H

#include "forward/parse.h"

/* For a frame that was changed: `bytes` is the length that it came with. */
static __always_inline void count_bytes(__u32 outcome, __u32 bytes)
{
	struct outcome_counters *counters =
		bpf_map_lookup_elem(&outcomes, &outcome);

	if (counters) {
		counters->packets++;
		counters->bytes += bytes;
	}
}

/* Only where the frame still has the length that it came with. */
static __always_inline void count(struct xdp_md *ctx, __u32 outcome)
{
	count_bytes(outcome, frame_length(ctx));
}

/* Out of line, and cold for the compiler: drops are many in the code and few
 * in the traffic. libbpf takes functions from .text alone. */
#define COLD __attribute__((cold, section(".text"))) static __noinline

/* As count(), of a packet that no service is known of; drop.h has the others.
 */
COLD int drop(struct xdp_md *ctx, __u32 outcome)
{
	count(ctx, outcome);
	return XDP_DROP;
}

static __always_inline void count_in(void *map, __u32 half, __u32 index,
				     __u32 bytes, bool opens_flow)
{
	struct traffic_counters *traffic = traffic_in(map, half, index);

	if (!traffic)
		return;
	traffic->packets++;
	traffic->bytes += bytes;
	if (unlikely(opens_flow))
		events_of(traffic, half)->flows++;
}

static __always_inline void count_of_service(__u32 index, __u32 bytes,
					     bool opens_flow)
{
	count_in(&service_counters, services_half, index, bytes, opens_flow);
}

static __always_inline void count_of_member(__u32 index, __u32 bytes,
					    bool opens_flow)
{
	count_in(&member_counters, members_half, index, bytes, opens_flow);
}

#endif
