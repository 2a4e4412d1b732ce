/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_MAGLEV_LAST_H
#define OXP_TABLE_MAGLEV_LAST_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Number of slots left to maglev_last(). */
#define MAGLEV_LAST 128

/* A member's walk over its permutation. */
struct walk {
	const uint32_t *candidate; /* slots to visit, terminated by `slots` */
	uint32_t next;             /* the slot after them */
	uint32_t skip;
	uint32_t weight;
	uint32_t credit; /* r * weight mod w_max */
	uint16_t value;
};

struct filling {
	struct walk *walks; /* by member */
	uint32_t count;
	uint32_t slots;
	uint32_t left;    /* free slots */
	uint8_t *is_free; /* by slot: 1 or 0, with a 0 at the end */
	uint16_t *out;
	uint32_t *candidates; /* `ahead` and a terminator for each member */
	uint32_t ahead;
	uint16_t *whose; /* members by turn of this round */
	uint32_t turns;
	uint32_t turn;     /* the next one */
	uint32_t greatest; /* weight */
	bool equal;        /* weights */
};

/* Determine which members take a turn in the next round. */
static inline void begin_round(struct filling *filling)
{
	filling->turn = 0;
	if (filling->equal) {
		filling->turns = filling->count;
		return;
	}
	filling->turns = 0;
	for (uint32_t i = 0; i < filling->count; i++) {
		struct walk *walk = &filling->walks[i];
		bool turn = walk->credit + walk->weight >= filling->greatest;

		walk->credit += walk->weight - (turn ? filling->greatest : 0);
		filling->whose[filling->turns] = i;
		filling->turns += turn;
	}
}

/* Returns the member whose turn it is. The greatest weight misses no round. */
static inline uint32_t next_turn(struct filling *filling)
{
	if (filling->turn == filling->turns)
		begin_round(filling);
	return filling->whose[filling->turn++];
}

/* Assign the last slots. Returns 0 or -ENOMEM. */
int maglev_last(struct filling *filling);

#endif
