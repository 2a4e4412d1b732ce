/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_WATCHED_UPLINKS_H
#define OXP_NODE_WATCHED_UPLINKS_H

#include <stdint.h>

#include "state.h"

/* Change the set to what it would be if no flows were watched. */
void unwatch(struct uplink_set *set);

/* Watch the flows of these choices, given as bits, where there is room for a
 * copy of their uplink. No choice of the set may be watched yet. */
void watch_choices(struct uplink_set *set, uint64_t choices);

/* Returns the choices that are watched in every family with an uplink. */
uint64_t choices_watched(const struct uplink_set *set);

#endif
