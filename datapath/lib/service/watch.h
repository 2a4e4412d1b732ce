/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_WATCH_H
#define OXP_SERVICE_WATCH_H

#include <stdint.h>

#include "state.h"

/* At most so many packets a second are watched, as long as more than one
 * choice's flows are, and so many flows: half of the places. */
#define WATCH_RATE 100000
#define WATCH_FLOWS (WATCH_SETS * WATCH_WAYS / 2)

/* Frees places of flows that are none any more, and decides which are to be
 * watched. With the node's lock; `passed_ms` since the last call. */
int watch_on(struct oxp_node *node, uint64_t passed_ms, char *error);

/* Flows that are alive of services first … first + count - 1, as estimated,
 * one number each. */
void count_alive(struct oxp_node *node, uint32_t first, uint32_t count,
		 uint32_t *alive);

/* Of services that are gone (a bit each): their numbers are given away. */
void forget_watched(struct oxp_node *node, const uint64_t *gone);

#endif
