/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_FIND_H
#define OXP_SERVICE_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Lock the node and find a service. Returns its index, or a negative errno with
 * the node unlocked. */
int lock_service(struct oxp_node *node, const struct oxp_key *key, char *error);

#endif
