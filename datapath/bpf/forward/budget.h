/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that the node itself answers: each CPU has so many a second (of
 * 2^30 ns). */
#ifndef OXP_BUDGET_H
#define OXP_BUDGET_H

#include "flow_time.h"
#include "maps.h"

static __always_inline bool may_answer(void)
{
	__u32 zero = 0, now = units_now();
	struct icmp_budget *budget;

	budget = bpf_map_lookup_elem(&icmp_budget, &zero);
	if (!budget)
		return false;
	if (budget->time != now) {
		budget->time = now;
		budget->packets = 0;
	}
	if (budget->packets >= config.icmp_rate)
		return false;
	budget->packets++;
	return true;
}

/* Back to where the frame came from; VLAN tags stay. */
static __always_inline void swap_macs(struct ethhdr *ethernet)
{
	__u16 *word = (__u16 *)ethernet;

	for (int i = 0; i < 3; i++) {
		__u16 other = word[i];

		word[i] = word[i + 3];
		word[i + 3] = other;
	}
}

#endif
