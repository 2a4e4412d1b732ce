/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_QUIC_SERVERS_H
#define OXP_TABLE_QUIC_SERVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

int write_quic_servers(struct oxp_node *node, uint32_t index,
		       const struct service_block *old,
		       const struct service_block *next, char *error);

/* See OXP_QUIC_CONFIG; `port` as from name_port(). */
uint32_t quic_server_id(const struct oxp_address *member, uint16_t port);

bool quic_servers_differ(const struct service_block *old,
			 const struct service_block *next);

int repair_quic_servers(struct oxp_node *node, char *error);

int check_quic_servers(const struct service_block *draft, char *error);

/* Whether the members' keys are all correct. Adds their number to *count. */
bool quic_servers_right(struct oxp_node *node, uint32_t index, uint32_t *count);

#endif
