/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_EPOCH_H
#define OXP_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Wait until nothing uses what was switched so far; sets config->waited. */
int grace_period(struct oxp_node *node, char *error);

/* Mark something that is about to be switched. */
void mark_switched(struct oxp_node *node, __u64 *switched);

/* Announce a change of services or members. `dirty`: unless end_change()
 * follows, the state must be repaired. */
void begin_change(struct oxp_node *node, bool dirty);

void end_change(struct oxp_node *node);

#endif
