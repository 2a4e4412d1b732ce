/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a member's packet changes flows, and to which listener it belongs. */
#ifndef OXP_HOST_OUTBOUND_H
#define OXP_HOST_OUTBOUND_H

#include "host/count.h"
#include "host/flows.h"
#include "host/hints.h"
#include "host/inbound.h"
#include "host/judge.h"
#include "host/packet.h"

/* Whether the entry matches the name: the flow may be older than the entry. */
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

/*
 * Whether the VM has just come from another hypervisor, so that not all of its
 * flows are known here yet. The time starts with the first packet `by_vm` that
 * is looked up, as the tap exists before the VM runs.
 */
static __always_inline bool is_arriving(struct host_port *port, bool by_vm)
{
	__u32 until = READ_ONCE(port->arrives_until), now;

	if (!until)
		return false;
	now = units_now();
	if (until == HOST_AWAITED) {
		if (by_vm)
			WRITE_ONCE(port->arrives_until,
				   now + HOST_ARRIVAL_UNITS);
		return true;
	}
	if (now <= until)
		return true;
	WRITE_ONCE(port->arrives_until, 0);
	return false;
}

#define PLACE_SHIFT 8

/*
 * Returns HOST_PASS, or a drop or HOST_OUT with the entry's place shifted by
 * PLACE_SHIFT. `first` is the place of one of the entries of the member's port.
 */
__noinline int flow_out(const struct host_packet *packet, __u32 first)
{
	const struct host_settings *node = &settings;
	const struct host_entry *entry = entries_at(first);
	__u32 now, idle = 0, place = first, generation;
	bool confirmed, known, arriving;
	struct flow_name name;
	struct host_port *port;
	struct flow flow = {};
	__u64 tag, state;

	if (!packet || !entry)
		return HOST_DROP_INTERNAL;
	port = ports_at(entry->host_port);
	if (!port)
		return HOST_DROP_INTERNAL;
	arriving = is_arriving(port, true);
	name_out(&name, packet, entry->host_port);
	tag = tag_of(&name);
	confirmed = known = find_confirmed(&flow, tag, node);
	if (!known) {
		idle = node->half_open_idle;
		known = find_half_open(&flow, tag, name.host_port, node);
	}
	/* read after the state, whose time is then not in the future */
	now = now_in_units();
	if (known &&
	    age_of(flow.state, now) > (idle ? idle : idle_of(flow.state, node)))
		known = false;
	if (known) {
		place = place_of(flow.state);
		entry = entries_at(place);
		known = entry && fits(entry, &name);
		if (known && flow.state & HOST_FLOW_DIRECT)
			return HOST_PASS;
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
		if (state != flow.state)
			exchange(&flow, state);
		return HOST_OUT | place << PLACE_SHIFT;
	}
	/* it may be a reply in a flow that is not known yet */
	if (arriving && name.protocol == IPPROTO_TCP &&
	    !(packet->tcp_flags & TCP_SYN))
		return HOST_DROP_ARRIVING | first << PLACE_SHIFT;
	return HOST_PASS;
}

/* Records a segment to a member's port that came by another way while the VM is
 * arriving: its replies need not wait until all flows are known. */
__noinline int note_direct(const struct host_packet *packet, __u32 place)
{
	const struct host_settings *node = &settings;
	const struct host_entry *entry = entries_at(place);
	struct flow_name name = {};
	struct host_port *port;
	struct flow flow = {};
	__u32 now;
	__u64 tag;

	if (!entry || !packet)
		return 0;
	port = ports_at(entry->host_port);
	if (!port || !is_arriving(port, false))
		return 0;
	name.client = packet->transport.source;
	name.fixed = packet->transport.destination;
	name.host_port = entry->host_port;
	name.client_port = packet->source_port;
	name.port = packet->destination_port;
	name.protocol = packet->transport.protocol;
	name.v6 = packet->transport.version == 6;
	tag = tag_of(&name);
	if (find_confirmed(&flow, tag, node))
		return 0;
	now = now_in_units();
	if (!find_half_open(&flow, tag, name.host_port, node))
		keep_bounded(&flow, tag, &name.client,
			     new_state(place, name.client_port, 0, now,
				       HOST_FLOW_DIRECT),
			     now, entry->host_port);
	else if (flow.state & HOST_FLOW_DIRECT &&
		 age_of(flow.state, now) > REFRESH_AGE)
		exchange(&flow, with_time(flow.state, now));
	return 0;
}

#endif
