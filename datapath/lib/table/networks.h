/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_NETWORKS_H
#define OXP_TABLE_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Sorted and masked, freed by the caller; NULL if there are none. */
int parse_allowed(const struct oxp_service_settings *settings,
		  struct oxp_network **out, uint32_t *count, char *error);

/* The networks that a block's service lets in, as parse_allowed() had them;
 * NULL and 0: there are none, or the state is damaged. */
const struct oxp_network *networks_of(struct oxp_node *node,
				      const struct service_block *block,
				      uint32_t *count);

/* Writes the draft's networks into the list that the live block, `old`, does
 * not name, and its place into the draft. old: NULL if the service is new. */
int write_networks(struct oxp_node *node, uint32_t index,
		   const struct service_block *old,
		   const struct oxp_network *networks,
		   struct service_block *draft, char *error);

/* Whether packets find what the list says. */
bool networks_are_right(struct oxp_node *node,
			const struct service_block *block);

#endif
