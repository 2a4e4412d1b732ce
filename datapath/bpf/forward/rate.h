/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A token bucket for each source of a service that limits new flows. Two CPUs
 * with packets of the same source may give away the same token: the limit is
 * for floods, not for accounting.
 */
#ifndef OXP_RATE_H
#define OXP_RATE_H

#include "age_since.h"
#include "forward/parse.h"
#include "forward/record.h"
#include "forward/shared_sets.h"

#define TOKEN 1024
/* Largest bucket that fits in source_budget.flows. */
#define BURST_MAX (0xffffffffu / TOKEN)

static __always_inline __u64 burst_of(const struct service_block *block)
{
	__u64 burst = block->new_flow_burst;

	if (!burst)
		burst = block->new_flow_rate;
	return burst < BURST_MAX ? burst : BURST_MAX;
}

static __always_inline __u64 refilled(const union source_budget *budget,
				      const struct service_block *block,
				      __u32 now)
{
	__u64 elapsed = age_since(budget->time, now, ~0U, AGE_AHEAD_MS);
	__u64 gained = elapsed * block->new_flow_rate; /* 1/1000 */
	__u64 burst = burst_of(block), flows;

	if (gained >= burst * 1000)
		return burst * TOKEN;
	flows = budget->flows + gained * TOKEN / 1000;
	return flows < burst * TOKEN ? flows : burst * TOKEN;
}

/* Marks the entry as used, so that others are older. */
static __always_inline void keep_fresh(struct shared_set *set, __u32 way)
{
	__u64 state = READ_ONCE(set->state[way]);

	if ((state & SHARE_WHAT) == SOURCE_KNOWN &&
	    share_age(state, share_time()))
		__sync_val_compare_and_swap(
			&set->state[way], state,
			share_state(state >> SHARE_OWNER_SHIFT, SOURCE_KNOWN));
}

/* Takes a token. An unknown source has a full bucket. */
static __always_inline bool may_open(const struct packet *packet,
				     const struct service_block *block,
				     __u32 service)
{
	const __u64 *address = (const __u64 *)packet->source;
	__u64 name = source_name(packet->v6 ? address[0] : packet->source[3],
				 packet->v6, service, node_seed);
	__u32 number = name & (SOURCE_SETS - 1), way;
	struct shared_set *set = bpf_map_lookup_elem(&sources, &number);
	union source_budget budget;
	__u64 flows;
	__u32 now;

	if (!set)
		return true;
	way = way_in_set(set, name);
	now = bpf_ktime_get_coarse_ns() / 1000000;
	if (way >= SHARE_WAYS) {
		RECORD(RATE, burst_of(block) * TOKEN);
		budget.flows = (burst_of(block) - 1) * TOKEN;
		budget.time = now;
		leave_in_set(set, name, share_state(service, SOURCE_KNOWN),
			     budget.word, SOURCE_AGE_MAX);
		return true;
	}
	budget.word = READ_ONCE(set->value[way]);
	flows = refilled(&budget, block, now);
	RECORD(RATE, flows);
	if (flows < TOKEN)
		return false;
	budget.flows = flows - TOKEN;
	budget.time = now;
	WRITE_ONCE(set->value[way], budget.word);
	keep_fresh(set, way);
	return true;
}

#endif
