/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_SERVICE_VALIDATE_H
#define OXP_SERVICE_VALIDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Checks what a caller wants; members come in any order, from
 * place 0 on, with the flags that it says */
int parse_wanted(struct oxp_node *node, const struct oxp_wanted_service *wanted,
		 struct service_block *draft, char *error);

int check_key(const struct oxp_key *key, char *error);

/* How packets to a VIP get to a member, by its tunnel or by the settings'
 * encapsulation. */
int parse_target(const struct oxp_service_settings *settings,
		 const struct oxp_address *vip,
		 const struct oxp_address *address, uint16_t port,
		 const struct oxp_tunnel *tunnel, struct block_member *out,
		 char *error);

#endif
