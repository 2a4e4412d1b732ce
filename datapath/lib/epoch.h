/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_EPOCH_H
#define OXP_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The same for what was switched until now; config->waited says so. */
int grace_period(struct oxp_node *node, char *error);

/* Marks something that is about to be switched. */
void mark_switched(struct oxp_node *node, __u64 *switched);

/* Announces that services or members come or go. */
void begin_change(struct oxp_node *node, bool dirty);

void end_change(struct oxp_node *node);

#endif
