/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A record of what is decided on a packet, for simulations (octavia-xdp-ctl
 * explain). In attached programs `records` is false: the verifier removes all
 * of it but the reading of that constant. The fast path does not have even
 * that: it records nothing. Simulated packets leave it when they are sent, and
 * the functions that it then calls record what it has done.
 */
#ifndef OXP_RECORD_H
#define OXP_RECORD_H

#include "likely.h"
#include "maps.h"
#include "verifier.h"

/* In a section of its own, which needs no lookup. Only one packet is run at a
 * time. */
struct decision_record record SEC(".data.record");

static __always_inline __u32 *next_decision(__u32 kind)
{
	__u64 place = record.count;
	struct oxp_decision *decision;

	record.count = place + 1;
	_Static_assert(OXP_DECISIONS_MAX == 64, "mask of places");
	MASK(place, 63);
	decision = &record.decision[place];
	decision->kind = kind;
	return decision->argument;
}

/* Records a decision, by its name and with all its arguments. Inlined, as the
 * stack has no room for a call everywhere. */
#define RECORD(name, ...)                                                      \
	do {                                                                   \
		if (unlikely(records)) {                                       \
			const __u32 values[] = {__VA_ARGS__};                  \
			__u32 *to = next_decision(OXP_DECIDED_##name);         \
                                                                               \
			for (__u32 i = 0; i < sizeof(values) / 4; i++)         \
				to[i] = values[i];                             \
		}                                                              \
	} while (0)

#endif
