/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters are per CPU and programs do not nest: plain additions are exact. */
#ifndef OXP_COUNT_H
#define OXP_COUNT_H

#include "forward/parse.h"

/* For frames that have changed: `bytes` is the original length. */
static __always_inline void count_bytes(__u32 outcome, __u32 bytes)
{
	struct outcome_counters *counters =
		bpf_map_lookup_elem(&outcomes, &outcome);

	if (counters) {
		counters->packets++;
		counters->bytes += bytes;
	}
}

/* Only while the frame still has its original length. */
static __always_inline void count(struct xdp_md *ctx, __u32 outcome)
{
	count_bytes(outcome, frame_length(ctx));
}

/* Out of line, and cold for the compiler: drops are many in the code and few in
 * the traffic. libbpf only takes functions from .text. */
#define COLD __attribute__((cold, section(".text"))) static __noinline

/* count(), for packets whose service is unknown; drop.h has the others. */
COLD int drop(struct xdp_md *ctx, __u32 outcome)
{
	count(ctx, outcome);
	return XDP_DROP;
}

static __always_inline void add_traffic(struct traffic_counters *traffic,
					__u32 bytes)
{
	traffic->packets++;
	traffic->bytes += bytes;
}

static __always_inline void count_at(struct traffic_counters *traffic,
				     __u32 part, __u32 bytes, bool opens_flow)
{
	if (!traffic)
		return;
	add_traffic(traffic, bytes);
	if (unlikely(opens_flow))
		events_of(traffic, part)->flows++;
}

static __always_inline void count_in(void *map, __u32 part, __u32 index,
				     __u32 bytes, bool opens_flow)
{
	count_at(traffic_in(map, part, index), part, bytes, opens_flow);
}

static __always_inline void count_of_service(__u32 index, __u32 bytes,
					     bool opens_flow)
{
	count_in(&service_counters, services_part, index, bytes, opens_flow);
}

static __always_inline void count_of_member(__u32 index, __u32 bytes,
					    bool opens_flow)
{
	count_in(&member_counters, members_part, index, bytes, opens_flow);
}

/* Of a service whose new flow cannot be remembered. */
COLD int count_table_full(struct xdp_md *ctx, __u32 service)
{
	struct traffic_counters *traffic =
		traffic_in(&service_counters, services_part, service);

	if (traffic)
		rare_of(traffic, services_part)->flow_table_full++;
	count(ctx, OXP_FLOW_TABLE_FULL);
	return 0;
}

/* For both, with a single call for the CPU's number. */
static __always_inline void count_forwarded(__u32 service, __u32 member,
					    __u32 bytes, bool opens_flow)
{
	__u32 cpu = bpf_get_smp_processor_id();
	union counters *services = bpf_map_lookup_elem(&service_counters, &cpu);
	union counters *members = bpf_map_lookup_elem(&member_counters, &cpu);
	struct traffic_counters *one, *other;

	one = traffic_at(services, services_part, service);
	if (unlikely(!one))
		return;
	add_traffic(one, bytes);
	other = traffic_at(members, members_part, member);
	if (unlikely(!other))
		return;
	add_traffic(other, bytes);
	if (unlikely(opens_flow)) {
		events_of(one, services_part)->flows++;
		events_of(other, members_part)->flows++;
	}
}

/* Executes this CPU's pending additions. `cpu` is a copy, as older kernels
 * accept no key from a function's argument. */
__noinline int add_pending(__u32 own)
{
	union counters *service, *member;
	struct pending_counts *pending;
	__u32 cpu = own, turns;

	pending = bpf_map_lookup_elem(&pending_counts, &cpu);
	service = bpf_map_lookup_elem(&service_counters, &cpu);
	member = bpf_map_lookup_elem(&member_counters, &cpu);
	if (!pending || !service || !member)
		return 0;
	turns = pending->turns;
	/* atomic exchanges are barriers */
	__sync_lock_test_and_set(&pending->turns, turns + 1);
	for (__u32 i = 0; i < PENDING_COUNTS; i++) {
		const struct pending_count *one = &pending->entry[i];

		count_at(traffic_at(service, services_part, one->service),
			 services_part, one->bytes, false);
		count_at(traffic_at(member, members_part, one->member),
			 members_part, one->bytes, false);
	}
	WRITE_ONCE(pending->count, 0);
	__sync_lock_test_and_set(&pending->turns, turns + 2);
	return 0;
}

/* For packets that do not open a flow. */
static __always_inline void count_later(__u32 service, __u32 member,
					__u32 bytes)
{
	__u32 cpu = bpf_get_smp_processor_id(), place;
	struct pending_counts *pending;

	pending = bpf_map_lookup_elem(&pending_counts, &cpu);
	if (!pending)
		return;
	place = pending->count % PENDING_COUNTS;
	pending->entry[place].service = service;
	pending->entry[place].member = member;
	pending->entry[place].bytes = bytes;
	asm volatile("" ::: "memory");
	WRITE_ONCE(pending->count, place + 1);
	if (place + 1 == PENDING_COUNTS)
		add_pending(cpu);
}

#endif
