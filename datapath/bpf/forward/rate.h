/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A token bucket for each source of a service that limits new flows. Two CPUs
 * that see the same source at once may each give away the same token: the
 * limit is for floods, not for accounting.
 */
#ifndef OXP_RATE_H
#define OXP_RATE_H

#include "age_since.h"
#include "forward/parse.h"

#define TOKEN 1024
/* Greatest bucket that fits source_budget.flows. */
#define BURST_MAX (0xffffffffu / TOKEN)

static __always_inline __u64 burst_of(const struct service_block *block)
{
	__u64 burst = block->new_flow_burst;

	if (!burst)
		burst = block->new_flow_rate;
	return burst < BURST_MAX ? burst : BURST_MAX;
}

static __always_inline __u64 refilled(const struct source_budget *budget,
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

/* Takes a token. */
static __always_inline bool may_open(const struct packet *packet,
				     const struct service_block *block,
				     __u32 service)
{
	__u32 now = bpf_ktime_get_coarse_ns() / 1000000;
	struct source_key key = {.service = service};
	struct source_budget *known, fresh;
	__u64 flows;

	__builtin_memcpy(key.source, packet->source, sizeof(key.source));
	if (packet->v6)
		key.source[2] = key.source[3] = 0;
	known = bpf_map_lookup_elem(&sources, &key);
	if (!known) {
		fresh.time = now;
		fresh.flows = (burst_of(block) - 1) * TOKEN;
		bpf_map_update_elem(&sources, &key, &fresh, BPF_ANY);
		return true;
	}
	flows = refilled(known, block, now);
	if (flows < TOKEN)
		return false;
	known->time = now;
	known->flows = flows - TOKEN;
	return true;
}

#endif
