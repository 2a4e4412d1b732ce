/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Echo requests by which LB nodes probe members, and their replies. A reply
 * does not contain the VIP of its request, so each request is kept with the
 * half-open flows until it is answered. Its name has the identifier, and the
 * sequence number instead of the member's port, as a node probes one member for
 * several VIPs. Since replies are looked up by tap, the name has the tap.
 */
#ifndef OXP_HOST_ECHO_H
#define OXP_HOST_ECHO_H

#include "host/flows.h"
#include "host/outbound.h"
#include "host/packet.h"

/* Replies to unknown requests are the VM's own. */
static __always_inline __u64 tag_of_echo(const struct host_packet *packet,
					 const struct ip_address *client,
					 const struct ip_address *fixed,
					 __u32 ifindex)
{
	bool asks = packet->echo == ECHO_REQUEST;
	struct flow_name name = {
		.client = *client,
		.fixed = *fixed,
		.host_port = ifindex,
		.client_port =
			asks ? packet->source_port : packet->destination_port,
		.port = asks ? packet->destination_port : packet->source_port,
		.protocol = packet->transport.protocol,
		.v6 = packet->transport.version == 6,
	};

	return tag_of(&name);
}

/* Returns HOST_IN or a drop. LB nodes themselves answer others' requests. */
__noinline int echo_in(const struct host_packet *packet, __u32 place)
{
	const struct host_settings *node = &settings;
	__u32 now = now_in_units();
	struct flow flow = {};
	struct ip_address client;
	struct inbound in;
	__u64 tag, state;

	if (!packet || !fill(&in, place))
		return HOST_DROP_INTERNAL;
	client = packet->transport.source;
	if (!find_network(&client))
		return HOST_DROP_MISMATCH;
	tag = tag_of_echo(packet, &client, &in.entry->fixed, in.port->ifindex);
	state = new_state(place, packet->source_port, in.port->generation, now,
			  HOST_FLOW_DATAGRAM);
	if (find_half_open(&flow, tag, in.port->ifindex, node))
		exchange(&flow, state);
	else
		keep_bounded(&flow, tag, &client, state, now,
			     in.entry->host_port);
	return HOST_IN;
}

/* Returns the same as flow_out(). */
__noinline __u32 echo_out(const struct host_packet *packet, __u32 ifindex)
{
	const struct host_settings *node = &settings;
	const struct host_entry *entry;
	const struct host_port *port;
	struct flow flow = {};
	__u32 place;
	__u64 tag;

	if (!packet)
		return HOST_PASS;
	tag = tag_of_echo(packet, &packet->transport.destination,
			  &packet->transport.source, ifindex);
	if (!find_half_open(&flow, tag, ifindex, node) ||
	    age_of(flow.state, now_in_units()) > node->half_open_idle)
		return HOST_PASS;
	place = place_of(flow.state);
	entry = entries_at(place);
	port = entry ? ports_at(entry->host_port) : NULL;
	/* the flow may be older than the present entry */
	if (!port || !is_used(entry) || port->ifindex != ifindex ||
	    !same_address(&entry->fixed, &packet->transport.source) ||
	    !exchange(&flow, 0))
		return HOST_PASS;
	return HOST_OUT | place << PLACE_SHIFT;
}

#endif
