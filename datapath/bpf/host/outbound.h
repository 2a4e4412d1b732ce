/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a member's packet does to flows, and to which listener it belongs. */
#ifndef OXP_HOST_OUTBOUND_H
#define OXP_HOST_OUTBOUND_H

#include "host/count.h"
#include "host/flows.h"
#include "host/hints.h"
#include "host/inbound.h"
#include "host/judge.h"
#include "host/packet.h"
#include "host/usual_flows.h"

/* Whether the entry is of what the name names: the flow may be older than it.
 */
static __always_inline bool fits(const struct host_entry *entry,
				 const struct flow_name *name)
{
	return is_used(entry) && entry->host_port == name->host_port &&
	       entry->port == name->port && entry->protocol == name->protocol &&
	       same_address(&entry->fixed, &name->fixed);
}

static __always_inline __u64 seen_out(__u64 state, __u32 now,
				      const struct host_packet *packet)
{
	if (age_of(state, now) > REFRESH_AGE)
		state = with_time(state, now);
	if (closes(packet))
		state |= HOST_FLOW_CLOSING;
	return state | HOST_FLOW_ANSWERED;
}

static __always_inline void name_out(struct flow_name *name,
				     const struct host_packet *packet,
				     __u32 host_port)
{
	name->client = packet->transport.destination;
	name->fixed = packet->transport.source;
	name->host_port = host_port;
	name->client_port = packet->destination_port;
	name->port = packet->source_port;
	name->protocol = packet->transport.protocol;
	name->v6 = packet->transport.version == 6;
}

#define PLACE_SHIFT 8

/*
 * HOST_PASS, a drop, HOST_GUESSED where guess() must say, or HOST_OUT; above,
 * by PLACE_SHIFT, the entry's place. `first` is that of one of the port's
 * entries, of which there are `listeners`.
 */
__noinline int flow_out(const struct host_packet *packet, __u32 first)
{
	const struct host_settings *node = &settings;
	const struct host_entry *entry = entries_at(first);
	__u32 now, idle = 0, place = first, generation;
	const struct host_port *port;
	struct flow_name name;
	struct flow flow = {};
	bool confirmed, known;
	__u64 tag, state;

	if (!packet || !entry)
		return HOST_DROP_INTERNAL;
	port = ports_at(entry->host_port);
	if (!port)
		return HOST_DROP_INTERNAL;
	name_out(&name, packet, entry->host_port);
	tag = tag_of(&name);
	confirmed = known = find_confirmed(&flow, tag, node);
	if (!known) {
		idle = node->half_open_idle;
		known = find_half_open(&flow, tag, name.host_port, node);
	}
	/* after the state was read, so that none is of later */
	now = now_in_units();
	if (known &&
	    age_of(flow.state, now) > (idle ? idle : idle_of(flow.state, node)))
		known = false;
	if (known) {
		place = place_of(flow.state);
		entry = entries_at(place);
		known = entry && fits(entry, &name);
	}
	if (packet->error)
		return known ? HOST_OUT | place << PLACE_SHIFT : HOST_PASS;
	if (known) {
		state = flow.state;
		generation = rules_generation(port);
		if (generation_of(state) != generation) {
			if (!judge(name.host_port, name.protocol,
				   bpf_ntohs(name.port), &name.client)) {
				if (exchange(&flow, 0) && confirmed)
					uncount(state);
				return HOST_DROP_NOT_ALLOWED |
				       place << PLACE_SHIFT;
			}
			state = with_generation(state, generation);
		}
		state = seen_out(state, now, packet);
		if ((state == flow.state || exchange(&flow, state)) &&
		    confirmed)
			follow_usual(tag, flow.state, state);
		return HOST_OUT | place << PLACE_SHIFT;
	}
	/* a datagram may be the member's own, from a port on which it serves */
	if (name.protocol != IPPROTO_TCP || opens(packet))
		return HOST_PASS;
	known = find_direct(&flow, tag, node);
	now = now_in_units();
	if (known && age_of(flow.state, now) <= node->direct_idle) {
		state = with_time(flow.state, now);
		if (age_of(flow.state, now) > REFRESH_AGE)
			exchange(&flow, state);
		return HOST_PASS;
	}
	return HOST_GUESSED;
}

/*
 * An answer of a flow that nothing is known of. Without a SYN it can't be the
 * beginning of one of the member's own; through OVS it would reach the client
 * from another address, whose reset would kill the connection. So it goes
 * where it must have come from, if that is certain; nowhere otherwise.
 */
__noinline int guess(const struct host_packet *packet, __u32 place,
		     __u32 listeners)
{
	const struct host_settings *node = &settings;
	const struct host_entry *entry = entries_at(place);
	const struct host_port *port;
	__u32 now = now_in_units(), generation;
	struct flow flow = {};
	struct flow_name name;
	__u64 tag;

	if (!packet || !entry)
		return HOST_DROP_INTERNAL;
	port = ports_at(entry->host_port);
	if (!port)
		return HOST_DROP_INTERNAL;
	if (listeners != 1)
		return HOST_DROP_AMBIGUOUS;
	if (network_of(&packet->transport.destination))
		return HOST_DROP_CLOSED;
	name_out(&name, packet, entry->host_port);
	tag = tag_of(&name);
	generation = rules_generation(port);
	if (!judge(name.host_port, name.protocol, bpf_ntohs(name.port),
		   &name.client))
		return HOST_DROP_NOT_ALLOWED;
	if (!find_half_open(&flow, tag, name.host_port, node))
		keep_bounded(&flow, tag, &name.client,
			     new_state(place, name.client_port, generation, now,
				       HOST_FLOW_GUESSED | HOST_FLOW_ANSWERED),
			     now);
	count(HOST_GUESSED);
	return HOST_OUT;
}

/* A packet to a member's port that came another way: its answers go as they
 * would without us. */
__noinline int note_direct(const struct host_packet *packet, __u32 place)
{
	const struct host_settings *node = &settings;
	const struct host_entry *entry = entries_at(place);
	__u32 now = now_in_units();
	struct flow_name name = {};
	struct flow flow = {};
	__u64 tag;

	if (!entry || !packet)
		return 0;
	name.client = packet->transport.source;
	name.fixed = packet->transport.destination;
	name.host_port = entry->host_port;
	name.client_port = packet->source_port;
	name.port = packet->destination_port;
	name.protocol = packet->transport.protocol;
	name.v6 = packet->transport.version == 6;
	tag = tag_of(&name);
	if (find_direct(&flow, tag, node)) {
		if (age_of(flow.state, now) > REFRESH_AGE)
			exchange(&flow, with_time(flow.state, now));
		return 0;
	}
	keep_bounded(&flow, tag, &name.client,
		     new_state(place, name.client_port, 0, now, 0), now);
	return 0;
}

#endif
