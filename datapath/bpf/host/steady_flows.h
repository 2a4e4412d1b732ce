/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flows in steady state: nearly all packets read one line of `flows`. */
#ifndef OXP_HOST_STEADY_FLOWS_H
#define OXP_HOST_STEADY_FLOWS_H

#include "host/flows.h"

#define LATE_REFRESH_SHIFT 4 /* after a sixteenth of a flow's idle time */
/* Index of the zero byte in a tag, which has HOST_TAG_BITS. */
#define ZERO_IN_TAG (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 7 : 0)

__u64 last_asked; /* for recent_units() */

/*
 * The line that the flow takes unless this is full. Starts loading it by a
 * write of what is there already: no instruction has to wait for a write,
 * whereas a processor continues for only about 200 instructions after a read.
 */
static __always_inline struct host_flow_line *
fetch_line(__u64 tag, const struct host_settings *node)
{
	struct host_flow_set *set = set_of(TABLE_FLOWS, first_set(tag, node));
	struct host_flow_line *line;
	__u64 number = host_line(tag);

	if (!set)
		return NULL;
	MASK(number, 1);
	line = &set->line[number];
	((volatile __u8 *)line)[ZERO_IN_TAG] = 0;
	return line;
}

/*
 * Whether a packet that neither opens nor closes a flow belongs to a confirmed
 * flow of the entry that the VM has answered, that is not closing, and that was
 * allowed by the rules of this generation, as nearly all packets do. False: the
 * full lookup decides. Without jumps, as the result is unpredictable and the
 * processor can continue while the line is being loaded. A state is read before
 * its tag, which is written before the state.
 */
static __always_inline bool simply_goes_on(const struct host_flow_line *line,
					   __u64 tag, __u32 place,
					   __u32 generation,
					   const struct host_settings *node)
{
	const __u64 generations = (__u64)HOST_GENERATION_MASK
				  << HOST_FLOW_GENERATION_SHIFT;
	const __u64 compared = generations | HOST_FLOW_PLACE_MASK |
			       HOST_FLOW_ANSWERED | HOST_FLOW_CLOSING;
	__u64 wanted = ((__u64)generation << HOST_FLOW_GENERATION_SHIFT &
			generations) |
		       HOST_FLOW_ANSWERED | place;
	__u32 now = recent_units(&last_asked);
	__u64 state = 0, idle;

#pragma unroll
	for (int way = HOST_LINE_WAYS - 1; way >= 0; way--) {
		__u64 found = READ_ONCE(line->state[way]);

		state = chosen(is_zero(READ_ONCE(line->tag[way]) ^ tag), found,
			       state);
	}
	idle = chosen(state / HOST_FLOW_DATAGRAM & 1, node->udp_idle,
		      node->tcp_idle);
	return !((state ^ wanted) & compared) &&
	       age_of(state, now) <= idle >> LATE_REFRESH_SHIFT;
}

#endif
