/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_WATCH_H
#define OXP_SERVICE_WATCH_H

#include <stdint.h>

#include "state.h"

/* At most this many packets a second are watched while more than one choice is,
 * and at most this many flows: half of the places. */
#define WATCH_RATE 100000
#define WATCH_FLOWS (WATCH_SETS * WATCH_WAYS / 2)

/* Free the places of flows that have ended, and decide which flows to watch.
 * `passed_ms`: since the last call. The caller holds the node's lock. */
int watch_on(struct oxp_node *node, uint64_t passed_ms, char *error);

/* Estimate the flows alive of services first … first + count - 1 into
 * alive[]. */
void count_alive(struct oxp_node *node, uint32_t first, uint32_t count,
		 uint32_t *alive);

/* Forget flows of removed services, given as bits: their indices are reused. */
void forget_watched(struct oxp_node *node, const uint64_t *gone);

#endif
