/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_COUNTERS_H
#define OXP_TABLE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"
#include "table/members.h"

/* Derive which counters are in use from the blocks of all used entries, unless
 * that is known. Not while an entry is being created. */
void derive_counters(struct oxp_node *node);

/* `since`: epoch of the switch that removed the member; 0: no packet saw it */
void release_counter(struct oxp_node *node, uint32_t index, uint64_t since);

/* Allocate counters for the draft's members with a bit in new_places[]: all or
 * none. */
int allocate_new_counters(struct oxp_node *node, struct service_block *draft,
			  const uint64_t new_places[PLACE_WORDS], char *error);

void release_new_counters(struct oxp_node *node,
			  const struct service_block *draft,
			  const uint64_t new_places[PLACE_WORDS],
			  uint32_t places);

/* Release the counters of members missing in the next block, after the
 * switch. */
void release_old_counters(struct oxp_node *node,
			  const struct service_block *old,
			  const struct service_block *next);

/* Set config->cpus. */
int size_counters(struct node_config *config, char *error);

int zero_service_counters(struct oxp_node *node, uint32_t index);

int read_reply_counters(struct oxp_node *node, uint32_t index,
			struct reply_counters *out);

/* `map`: MAP_OUTCOMES or a map of the same kind. */
int read_outcome(int map, uint32_t outcome, struct oxp_outcome_counters *out);

struct service_counts {
	struct oxp_counters counters;
	uint64_t drops;
	uint64_t flow_table_full;
};

/* Sum over all CPUs' slices, without a system call. */
void read_service_counts(struct oxp_node *node, uint32_t index,
			 struct service_counts *out);

void read_member_counters(struct oxp_node *node, uint32_t index,
			  struct oxp_counters *out);

#endif
