/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_FIND_H
#define OXP_SERVICE_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Locks the node and finds a service; its index, or an error, then
 * unlocked */
int lock_service(struct oxp_node *node, const struct oxp_key *key, char *error);

#endif
