/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_SLOT_TRANSITION_H
#define OXP_TABLE_SLOT_TRANSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct slot_state {
	uint16_t slot, before; /* members; `slot` may have SLOT_OPEN */
};

/* stays[SLOT_STAYS(m)], with STAYS elements: member m of the old block is in
 * the new one and keeps its flows; false for SLOT_NOBODY. */
#define STAYS (2 * OXP_MEMBERS_MAX)
#define SLOT_STAYS(member) ((member) & (STAYS - 1))

struct slot_state slot_transition(struct slot_state old, uint16_t owner,
				  const bool *stays, bool unknown_at_before);

/* Returns before_slots of the block that transition() will fill. */
uint32_t next_before_slots(struct oxp_node *node, uint32_t index,
			   const struct service_block *next,
			   const struct service_block *old);

/* Fill slots, bitmap, `before`, open and learning of `next`. owner_of[]
 * translates elements of `table` to indices of members. */
void transition(struct oxp_node *node, uint32_t index,
		struct service_block *next, const struct service_block *old,
		const uint16_t *table, const uint16_t *owner_of);

#endif
