/* SPDX-License-Identifier: Apache-2.0 */
/* A service whose members come, go, fail, recover, drain and change weight. */
#ifndef OXP_CHANGING_MEMBERS_H
#define OXP_CHANGING_MEMBERS_H

#include "harness.h"

#define MEMBERS 24
#define IDLE 60 /* seconds */

struct world {
	struct oxp_node *node;
	struct oxp_key key;
	struct oxp_member member[MEMBERS];
	bool present[MEMBERS], up[MEMBERS];
	uint32_t lost[MEMBERS]; /* last wave in which it could not keep flows */
	uint32_t wave;
};

/* Determines the events. Tests set it to get the same ones each time. */
extern uint64_t random_state;
uint32_t random_below(uint32_t limit);

/* Begin with all members up, in the first wave. */
void world_begin(struct world *world, struct oxp_node *node,
		 struct oxp_key key);
void world_configure(struct world *world);
void world_report_health(struct world *world);
/* Whether the member can keep flows. */
bool world_keeps(const struct world *world, int member);
/* Make this many changes, each to one member. */
void world_next_wave(struct world *world, uint32_t events);

#endif
