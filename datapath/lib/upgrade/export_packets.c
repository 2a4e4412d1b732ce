// SPDX-License-Identifier: Apache-2.0
/* Exporting what packets write for the whole node: outcomes and flows. */
#include "upgrade/export_packets.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "age_since.h"
#include "clock.h"
#include "state.h"
#include "upgrade/stream.h"
#include "upgrade/writer.h"

void write_outcomes(struct writer *writer)
{
	struct oxp_outcome_counters counters[OXP_OUTCOMES];
	int status =
		oxp_outcomes_list(writer->node, counters, OXP_OUTCOMES, NULL);

	if (status < 0) {
		writer->status = status;
		return;
	}
	begin_record(writer, RECORD_OUTCOMES, 0, sizeof(struct stream_outcome),
		     OXP_OUTCOMES);
	for (uint32_t i = 0; i < OXP_OUTCOMES; i++) {
		struct stream_outcome one = {.outcome = i,
					     .packets = counters[i].packets,
					     .bytes = counters[i].bytes};

		put_elements(writer, &one, sizeof(one));
	}
}

/* Packets go on changing flows: copy them so that the count stays right. */
static uint64_t copy_flows(struct flow_set *copy, const struct flow_set *sets,
			   uint32_t count)
{
	uint64_t flows = 0;

	for (uint32_t i = 0; i < count; i++)
		for (int way = 0; way < FLOW_SET_WAYS; way++) {
			copy[i].entry[way] = __atomic_load_n(
				&sets[i].entry[way], __ATOMIC_RELAXED);
			flows += !!copy[i].entry[way];
		}
	return flows;
}

static void write_flow(struct writer *writer, uint32_t set, uint64_t entry,
		       uint64_t now)
{
	struct stream_flow one = {
		.name = (entry & FLOW_NAME_MASK) | (set & ~FLOW_NAME_MASK),
		.age = age_since(entry >> FLOW_TIME_SHIFT, now, FLOW_TIME_MASK,
				 AGE_AHEAD),
		.member = entry & FLOW_MEMBER,
		.confirmed = !!(entry & FLOW_CONFIRMED),
		.ended = !!(entry & FLOW_ENDED),
	};

	put_elements(writer, &one, sizeof(one));
}

void write_flows(struct writer *writer)
{
	uint32_t count = writer->node->config->flows_max / FLOW_SET_WAYS;
	size_t length = count * sizeof(struct flow_set);
	struct flow_set *copy = malloc(length), *sets;
	uint64_t now;

	if (!copy) {
		writer->status = -ENOMEM;
		return;
	}
	sets = mmap(NULL, length, PROT_READ, MAP_SHARED,
		    writer->node->map[MAP_FLOWS], 0);
	if (sets == MAP_FAILED) {
		writer->status = -errno;
		free(copy);
		return;
	}
	begin_record(writer, RECORD_FLOWS, 0, sizeof(struct stream_flow),
		     copy_flows(copy, sets, count));
	munmap(sets, length);
	/* after reading, so that no flow is from the future */
	now = coarse_time() >> 30;
	for (uint32_t i = 0; i < count; i++)
		for (int way = 0; way < FLOW_SET_WAYS; way++)
			if (copy[i].entry[way])
				write_flow(writer, i, copy[i].entry[way], now);
	free(copy);
}
