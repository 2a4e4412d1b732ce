/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_VALIDATE_H
#define OXP_SERVICE_VALIDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Check the settings and fill the draft. Members are in the caller's order,
 * from place 0 on, with the flags that the caller set. */
int parse_wanted(struct oxp_node *node, const struct oxp_wanted_service *wanted,
		 struct service_block *draft, char *error);

int check_key(const struct oxp_key *key, char *error);

/* Determine how packets to a VIP reach a member: by its tunnel or by the
 * encapsulation in `settings`. */
int parse_target(const struct oxp_service_settings *settings,
		 const struct oxp_address *vip,
		 const struct oxp_address *address, uint16_t port,
		 const struct oxp_tunnel *tunnel, struct block_member *out,
		 char *error);

#endif
