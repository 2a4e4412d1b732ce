/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of flows in steady state; host.h describes its contents. */
#ifndef OXP_HOST_USUAL_FLOWS_H
#define OXP_HOST_USUAL_FLOWS_H

#include "age_since.h"
#include "host/flows.h"

/* Flags of flows, and their values in steady state. */
#define USUAL_FLAGS (HOST_FLOW_ANSWERED | HOST_FLOW_CLOSING)
#define USUAL HOST_FLOW_ANSWERED

static __always_inline struct host_usual_flows *
usual_of(__u64 tag, const struct host_settings *node)
{
	__u32 number = first_set(tag, node);

	return bpf_map_lookup_elem(&usual_flows, &number);
}

/*
 * Starts loading the flow's line, which is read later. By a write of what is
 * there already: no instruction has to wait for a write, whereas a processor
 * continues for only about 200 instructions after a read.
 */
static __always_inline void fetch_line(__u64 tag,
				       const struct host_settings *node)
{
	struct host_usual_flows *line = usual_of(tag, node);
	volatile __u8 *first = (void *)line;

	if (line)
		first[HOST_USUAL_ZERO] = 0;
}

__u64 last_asked; /* for recent_units() */

static __always_inline bool is_late(__u64 word, __u32 now,
				    const struct host_settings *node)
{
	__u32 age = age_since(word >> HOST_USUAL_TIME_SHIFT, now,
			      HOST_FLOW_TIME_MASK, AGE_AHEAD);
	__u32 idle =
		word & HOST_USUAL_DATAGRAM ? node->udp_idle : node->tcp_idle;

	return age > idle >> HOST_LATE_REFRESH_SHIFT;
}

/*
 * Whether a packet that neither opens nor closes a flow belongs to a confirmed
 * flow of the entry in steady state, as nearly all packets do. False: the full
 * lookup decides. Without jumps, as the result is unpredictable and the
 * processor can continue while the line is being loaded. If two CPUs have
 * written a flow into two ways at once, their words are merged, which may give
 * a wrong age until the flow is written again.
 */
static __always_inline bool simply_goes_on(__u64 tag, __u32 place,
					   __u32 generation,
					   const struct host_settings *node)
{
	const struct host_usual_flows *line = usual_of(tag, node);
	__u64 name =
		host_usual_name(tag, place, generation & HOST_GENERATION_MASK);
	__u32 now = recent_units(&last_asked);
	__u64 word = 0;

	if (!line)
		return false;
#pragma unroll
	for (__u32 way = 0; way < HOST_USUAL_WAYS; way++) {
		__u64 one = READ_ONCE(line->word[way]);

		word |= one & -is_zero((one ^ name) >> HOST_USUAL_NAME_SHIFT);
	}
	return word & HOST_USUAL_USED && !is_late(word, now, node);
}

static __always_inline __u64 usual_name(__u64 tag, __u64 state)
{
	return host_usual_name(tag, place_of(state), generation_of(state));
}

/* Frees all ways of the flow under either name except one that already has the
 * word; returns whether there is one. */
static __always_inline bool clear_usual(struct host_usual_flows *line,
					__u64 name, __u64 other, __u64 word)
{
	bool found = false;

	for (__u32 way = 0; way < HOST_USUAL_WAYS; way++) {
		__u64 was = READ_ONCE(line->word[way]);

		if (!was ||
		    (!host_usual_is(was, name) && !host_usual_is(was, other)))
			continue;
		if (was == word && !found)
			found = true;
		else
			__sync_val_compare_and_swap(&line->word[way], was, 0);
	}
	return found;
}

/* If no way is free the flow is not recorded. */
static __always_inline void write_usual(struct host_usual_flows *line,
					__u64 word, __u32 now,
					const struct host_settings *node)
{
	for (__u32 way = 0; way < HOST_USUAL_WAYS; way++) {
		__u64 was = READ_ONCE(line->word[way]);

		if ((!was || is_late(was, now, node)) &&
		    __sync_val_compare_and_swap(&line->word[way], was, word) ==
			    was)
			return;
	}
}

/*
 * To be called after the state of a confirmed flow was changed or found
 * unchanged: records whether the flow is in steady state. Another CPU that
 * changes the state meanwhile may have looked here before the word was written,
 * so the state is read again: one of the two sees what the other has done.
 */
__noinline int follow_usual(__u64 tag, __u64 was, __u64 state)
{
	const __u64 time = (__u64)HOST_FLOW_TIME_MASK << HOST_FLOW_TIME_SHIFT;
	const struct host_settings *node = &settings;
	__u64 name = usual_name(tag, state), word = 0;
	struct host_usual_flows *line;
	struct flow flow = {};

	line = usual_of(tag, node);
	if (!line)
		return 0;
	if ((state & USUAL_FLAGS) == USUAL)
		word = name |
		       (state >> HOST_FLOW_TIME_SHIFT & HOST_FLOW_TIME_MASK)
			       << HOST_USUAL_TIME_SHIFT |
		       (state & HOST_FLOW_DATAGRAM ? HOST_USUAL_DATAGRAM : 0) |
		       HOST_USUAL_USED;
	if (clear_usual(line, name, usual_name(tag, was), word) || !word)
		return 0;
	write_usual(line, word, now_in_units(), node);
	if (!find_confirmed(&flow, tag, node) || (flow.state ^ state) & ~time)
		clear_usual(line, name, name, 0);
	return 0;
}

#endif
