/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_NETWORKS_H
#define OXP_TABLE_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Sorted and masked, freed by the caller; NULL if there are none. */
int parse_allowed(const struct oxp_service_settings *settings,
		  struct oxp_network **out, uint32_t *count, char *error);

/* The networks of a set; their number. */
int read_allowed(struct oxp_node *node, uint32_t set,
		 const struct allowed **out, char *error);

int write_allowed(struct oxp_node *node, uint32_t set,
		  const struct oxp_network *networks, uint32_t count,
		  char *error);

/* Calls one(node, set) for each network of each set; how often it returned
 * true. */
int count_allowed(struct oxp_node *node,
		  bool (*one)(struct oxp_node *node, uint32_t set),
		  char *error);

/* Removes all sets for which keep(node, set) is false. */
int repair_allowed(struct oxp_node *node,
		   bool (*keep)(struct oxp_node *node, uint32_t set),
		   char *error);

#endif
