/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_USUAL_H
#define OXP_TABLE_USUAL_H

#include "state.h"

/* What blocks of services look like, as counted so far; begins with zeroes. */
struct usual_block {
	uint32_t slot_line, slots;
	uint32_t votes;
	uint32_t services;
};

/* For each service, by who reads its header anyway. */
void count_block(struct usual_block *usual, const struct service_block *block);

/* Tells packets. */
void note_usual_block(struct oxp_node *node, const struct usual_block *usual);

#endif
