/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters are per CPU, and programs do not nest: plain additions are exact. */
#ifndef OXP_COUNT_H
#define OXP_COUNT_H

#include "maps.h"

static __always_inline void count(__u32 outcome)
{
	__u64 *packets = bpf_map_lookup_elem(&outcomes, &outcome);

	if (packets)
		++*packets;
}

/* Out of line: drops are many in the code and few in the traffic. */
static __noinline int drop(__u32 outcome)
{
	count(outcome);
	return XDP_DROP;
}

static __always_inline void count_in(void *map, __u32 index, __u32 bytes,
				     __u32 opens_flow)
{
	struct counters *counters = bpf_map_lookup_elem(map, &index);

	if (counters) {
		counters->packets++;
		counters->bytes += bytes;
		counters->flows += opens_flow;
	}
}

#endif
