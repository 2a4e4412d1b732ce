/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters are per CPU, and programs do not nest: plain additions are exact. */
#ifndef OXP_COUNT_H
#define OXP_COUNT_H

#include "maps.h"
#include "parse.h"
#include "select.h"

static __always_inline int drop(enum oxp_outcome outcome)
{
	__u32 index = outcome;
	__u64 *packets = bpf_map_lookup_elem(&outcomes, &index);

	if (packets)
		++*packets;
	return XDP_DROP;
}

static __always_inline int forwarded(const struct packet *packet,
				     const struct target *target)
{
	struct service_counters *service;
	struct member_counters *member;

	service = bpf_map_lookup_elem(&service_counters, &target->service);
	if (service) {
		service->packets++;
		service->bytes += packet->length;
		service->flows += packet->opens_flow;
	}
	member = bpf_map_lookup_elem(&member_counters, &target->counter);
	if (member) {
		member->packets++;
		member->bytes += packet->length;
	}
	return XDP_TX;
}

#endif
