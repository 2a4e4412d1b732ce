// SPDX-License-Identifier: Apache-2.0
/*
 * The most common shape of blocks, for nodes with too many services for any
 * cache: packets prefetch lines of a block along with its header, before they
 * have read it. This affects only their speed, not their results.
 */
#include "table/usual.h"

/* With this many services packets gain, and none loses much. */
#define MANY 128

/* Majority vote by Boyer and Moore: a shape that more than half of the services
 * have remains. */
void count_block(struct usual_block *usual, const struct service_block *block)
{
	usual->services++;
	if (usual->votes && (block->slot_line != usual->slot_line ||
			     block->slots != usual->slots)) {
		usual->votes--;
		return;
	}
	usual->votes++;
	usual->slot_line = block->slot_line;
	usual->slots = block->slots;
}

void note_usual_block(struct oxp_node *node, const struct usual_block *usual)
{
	bool many = usual->services >= MANY;

	__atomic_store_n(&node->config->usual_slot_line,
			 many ? usual->slot_line : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&node->config->usual_slots, many ? usual->slots : 0,
			 __ATOMIC_RELAXED);
}
