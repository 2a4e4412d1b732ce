/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_NETWORKS_H
#define OXP_TABLE_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Returns sorted and masked networks that the caller frees; NULL if none. */
int parse_allowed(const struct oxp_service_settings *settings,
		  struct oxp_network **out, uint32_t *count, char *error);

/* The networks that a block's service allows, as from parse_allowed(); NULL and
 * 0 if there are none or the state is damaged. */
const struct oxp_network *networks_of(struct oxp_node *node,
				      const struct service_block *block,
				      uint32_t *count);

/* Write the draft's networks to the list that the live block `old` does not
 * use, and set draft->networks. old: NULL for a new service. */
int write_networks(struct oxp_node *node, uint32_t index,
		   const struct service_block *old,
		   const struct oxp_network *networks,
		   struct service_block *draft, char *error);

/* Whether the bounds agree with the networks. */
bool networks_are_right(struct oxp_node *node,
			const struct service_block *block);

#endif
