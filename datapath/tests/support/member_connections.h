/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the client to the VIPs over loopback, in a network namespace
 * of its own: real sockets of the kernel, as at a member. */
#ifndef OXP_MEMBER_CONNECTIONS_H
#define OXP_MEMBER_CONNECTIONS_H

#include "member_packets.h"

#define HERE 40000  /* client's port of a connection to this member */
#define OTHER 40001 /* of a connection elsewhere */
/* Closed by the server, then by the client: in TIME-WAIT. */
#define CLOSED 40002
/* Not yet opened by the server: in SYN-RECV. */
#define OPENING 40003
#define OPENING_PORT 81 /* of the VIP */

/* Setup and teardown of a cmocka group. */
int open_connections(void **state);
int close_connections(void **state);

/* The sequence number up to which the client has acknowledged everything. */
uint32_t acknowledged_by_client(bool v6);
/* The numbers with which a client's packet continues the connection of a
 * port. */
struct position {
	uint32_t sequence, acknowledged;
};
struct position position_of(uint16_t port, bool v6);
/* Send bytes from the server, and let the client acknowledge them. */
void send_to_client(bool v6, size_t length);

#endif
