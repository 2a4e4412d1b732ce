/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the client to the VIPs, over loopback of a network namespace
 * of our own: the kernel's sockets, as a member has them. */
#ifndef OXP_MEMBER_CONNECTIONS_H
#define OXP_MEMBER_CONNECTIONS_H

#include "member_packets.h"

#define HERE 40000  /* the client's port of a connection that is here */
#define OTHER 40001 /* of one that is not */

/* A cmocka group's setup and teardown. */
int open_connections(void **state);
int close_connections(void **state);

/* The sequence number up to which the client has acknowledged all. */
uint32_t acknowledged_by_client(bool v6);
/* The server sends so many bytes, and the client acknowledges them. */
void send_to_client(bool v6, size_t length);

#endif
