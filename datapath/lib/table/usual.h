/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_USUAL_H
#define OXP_TABLE_USUAL_H

#include "state.h"

/* The most common shape so far; starts as zeroes. */
struct usual_block {
	uint32_t slot_line, slots;
	uint32_t votes;
	uint32_t services;
};

/* Called for each service when its header is read anyway. */
void count_block(struct usual_block *usual, const struct service_block *block);

/* Make the result visible to packets. */
void note_usual_block(struct oxp_node *node, const struct usual_block *usual);

#endif
