// SPDX-License-Identifier: Apache-2.0
/*
 * What most blocks look like, for packets of nodes with so many services that
 * none of them is in a cache: they fetch lines of a block along with its
 * header, before they know what that says. Whatever is noted, packets come to
 * the same results.
 */
#include "table/usual.h"

/* From so many services on packets gain by it, and none loses much. */
#define MANY 128

/* The vote of Boyer and Moore: what more than half of the services have is
 * what is left. */
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
