/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The name of a flow: SipHash-1-3 (Aumasson and Bernstein; one round per word
 * and three at the end) keyed with a secret of the hypervisor. Clients choose
 * addresses and ports: with a weaker hash they could find two flows with the
 * same name, and use the second to get in where only the first is allowed.
 *
 * The message: fixed address, client's address (4 or 16 bytes each), place of
 * the host's port (2 bytes, little endian), protocol, and the member's and the
 * client's port as in packets. With its length in the last byte it has two
 * words for IPv4 and five for IPv6.
 */
#ifndef OXP_HOST_HASH_H
#define OXP_HOST_HASH_H

#include "host/maps.h"
#include "host_flow_name.h"

struct flow_name {
	struct ip_address client, fixed;
	__u32 host_port;
	__be16 client_port, port;
	__u8 protocol;
	__u8 v6;
};

__noinline __u64 tag_of(const struct flow_name *name)
{
	const struct host_settings *node = &settings;

	if (!name)
		return 1;
	return tag_from(siphash(&name->fixed, &name->client,
				end_of_name(name->host_port, name->protocol,
					    name->port, name->client_port),
				name->v6, node));
}

#endif
