/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the client to the VIPs, over loopback of a network namespace
 * of our own: the kernel's sockets, as a member has them. */
#ifndef OXP_MEMBER_CONNECTIONS_H
#define OXP_MEMBER_CONNECTIONS_H

#include "member_packets.h"

#define HERE 40000  /* the client's port of a connection that is here */
#define OTHER 40001 /* of one that is not */
/* Of one that the server closed, and then the client: in TIME-WAIT. */
#define CLOSED 40002
/* Of one that the server has not opened yet: in SYN-RECV. */
#define OPENING 40003
#define OPENING_PORT 81 /* of the VIP */

/* A cmocka group's setup and teardown. */
int open_connections(void **state);
int close_connections(void **state);

/* The sequence number up to which the client has acknowledged all. */
uint32_t acknowledged_by_client(bool v6);
/* What a client's packet has that goes on where the connection of this port
 * was left. */
struct position {
	uint32_t sequence, acknowledged;
};
struct position position_of(uint16_t port, bool v6);
/* The server sends so many bytes, and the client acknowledges them. */
void send_to_client(bool v6, size_t length);

#endif
