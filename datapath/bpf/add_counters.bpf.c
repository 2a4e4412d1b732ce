/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Adds to counters of the CPU that it runs on. Test runs of XDP programs
 * disable softirqs, so that no packet is counted on this CPU meanwhile; a
 * system call would overwrite counts of other CPUs. The frame is an array of
 * additions.
 */
#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline void add(void *map, __u32 part,
				const struct addition *one)
{
	struct traffic_counters *traffic = traffic_in(map, part, one->index);
	struct event_counters *events;

	if (!traffic)
		return;
	events = events_of(traffic, part);
	traffic->packets += one->packets;
	traffic->bytes += one->bytes;
	events->flows += one->flows;
	events->drops += one->drops;
}

/* Looks the element up again: the compiler merges add() of both maps, of which
 * only one has this part. */
static __always_inline void add_rare(const struct addition *one)
{
	struct traffic_counters *traffic =
		traffic_in(&service_counters, services_part, one->index);

	if (traffic)
		rare_of(traffic, services_part)->flow_table_full +=
			one->flow_table_full;
}

static __always_inline void add_outcome(const struct addition *one)
{
	__u32 index = one->index;
	struct outcome_counters *counters =
		bpf_map_lookup_elem(&outcomes, &index);

	if (!counters)
		return;
	counters->packets += one->packets;
	counters->bytes += one->bytes;
}

SEC("xdp")
int oxp_add(struct xdp_md *ctx)
{
	const struct addition *one = (void *)(long)ctx->data;
	const void *end = (void *)(long)ctx->data_end;

	for (int i = 0; i < ADDITIONS_MAX; i++, one++) {
		if ((const void *)(one + 1) > end)
			break;
		if (one->map == ADDED_SERVICE) {
			add(&service_counters, services_part, one);
			add_rare(one);
		} else if (one->map == ADDED_MEMBER) {
			add(&member_counters, members_part, one);
		} else {
			add_outcome(one);
		}
	}
	return XDP_PASS;
}
