/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_NODE_WATCHED_UPLINKS_H
#define OXP_NODE_WATCHED_UPLINKS_H

#include <stdint.h>

#include "state.h"

/* The set as it would be if no flows were watched. */
void unwatch(struct uplink_set *set);

/* Has flows of these choices watched, a bit each, where there is room for a
 * copy of their uplinks. The set is one of which none are. */
void watch_choices(struct uplink_set *set, uint64_t choices);

/* The choices whose flows are watched in each family that has an uplink. */
uint64_t choices_watched(const struct uplink_set *set);

#endif
