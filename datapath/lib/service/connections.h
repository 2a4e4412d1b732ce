/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_CONNECTIONS_H
#define OXP_SERVICE_CONNECTIONS_H

#include "state.h"

/* 0: none. */
uint32_t connection_limit(struct oxp_node *node, uint32_t index);
uint32_t open_connections(struct oxp_node *node, uint32_t index);
/* One store, which packets see at once. A service that gets a limit begins
 * without connections. Returns whether it was another one. */
bool set_connection_limit(struct oxp_node *node, uint32_t index,
			  uint32_t limit);
/* Ends connections that have been silent for too long. Once a second. */
void age_connections(struct oxp_node *node);
/* Of services that are gone: bits of indices. */
void forget_connections(struct oxp_node *node, const uint64_t *gone);

#endif
