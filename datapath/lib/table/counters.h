/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_COUNTERS_H
#define OXP_TABLE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"
#include "table/members.h"

/* Finds out who owns which, unless that is known: from the blocks of all used
 * entries, so not while one is being made. */
void derive_counters(struct oxp_node *node);

/* `since`: epoch of the switch that took the member out; 0: nobody saw it */
void release_counter(struct oxp_node *node, uint32_t index, uint64_t since);

/* Those of the draft's members with a bit in new_places[]; all or none. */
int allocate_new_counters(struct oxp_node *node, struct service_block *draft,
			  const uint64_t new_places[PLACE_WORDS], char *error);

void release_new_counters(struct oxp_node *node,
			  const struct service_block *draft,
			  const uint64_t new_places[PLACE_WORDS],
			  uint32_t places);

/* Those of members that are not in the next block, after the switch. */
void release_old_counters(struct oxp_node *node,
			  const struct service_block *old,
			  const struct service_block *next);

/* How many CPUs count. */
int size_counters(struct node_config *config, char *error);

int zero_service_counters(struct oxp_node *node, uint32_t index);

int read_reply_counters(struct oxp_node *node, uint32_t index,
			struct reply_counters *out);

/* Of a map as MAP_OUTCOMES. */
int read_outcome(int map, uint32_t outcome, struct oxp_outcome_counters *out);

/* What is counted for a service. */
struct service_counts {
	struct oxp_counters counters;
	uint64_t drops;
};

/* Without a system call, from all CPUs' slices. */
void read_service_counts(struct oxp_node *node, uint32_t index,
			 struct service_counts *out);

void read_member_counters(struct oxp_node *node, uint32_t index,
			  struct oxp_counters *out);

#endif
