/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a client's packet changes flows. Each packet has all data of its flow:
 * what was lost is restored by the client's next packet. */
#ifndef OXP_HOST_INBOUND_H
#define OXP_HOST_INBOUND_H

#include "host/count.h"
#include "host/flows.h"
#include "host/judge.h"
#include "host/packet.h"
#include "host/steady_flows.h"

struct inbound {
	const struct host_entry *entry;
	struct host_port *port;
	__u32 place;
};

static __always_inline void name_in(struct flow_name *name,
				    const struct host_packet *packet,
				    const struct inbound *in)
{
	name->client = packet->transport.source;
	name->fixed = in->entry->fixed;
	name->host_port = in->entry->host_port;
	name->client_port = packet->source_port;
	name->port = in->entry->port;
	name->protocol = in->entry->protocol;
	name->v6 = packet->transport.version == 6;
}

static __always_inline bool admits(const struct host_entry *entry,
				   const struct ip_address *client)
{
	return judge(entry->host_port, entry->protocol, bpf_ntohs(entry->port),
		     client);
}

/* The state after a packet of the client. */
static __always_inline __u64 seen_in(__u64 state, __u32 now,
				     const struct host_packet *packet)
{
	if (age_of(state, now) > REFRESH_AGE)
		state = with_time(state, now);
	if (closes(packet))
		return state | HOST_FLOW_CLOSING;
	if (opens(packet))
		return state & ~(__u64)HOST_FLOW_CLOSING;
	return state;
}

static __always_inline enum host_outcome
begin_flow(struct flow *flow, const struct flow_name *name, __u64 tag,
	   const struct inbound *in, const struct host_packet *packet,
	   __u32 now)
{
	struct host_counters *own = counters_at(in->place);
	__u64 flags = name->protocol == IPPROTO_TCP ? 0 : HOST_FLOW_DATAGRAM;
	__u32 generation = rules_generation(in->port);
	__u64 state;

	if (!admits(in->entry, &name->client))
		return HOST_DROP_NOT_ALLOWED;
	if (closes(packet))
		flags |= HOST_FLOW_CLOSING;
	state = new_state(in->place, name->client_port, generation, now, flags);
	/* on a lost race with another CPU the next packet tries again */
	if (keep_bounded(flow, tag, &name->client, state, now,
			 name->host_port) &&
	    own)
		own->flows++;
	return HOST_IN;
}

/* For a known flow: continues it, checks it again, or ends it. */
static __always_inline enum host_outcome
go_on(struct flow *flow, const struct flow_name *name, __u64 tag,
      const struct inbound *in, const struct host_packet *packet, __u32 now,
      bool confirmed)
{
	__u32 generation = rules_generation(in->port);
	__u64 state = flow->state;

	if (generation_of(state) != generation) {
		if (!admits(in->entry, &name->client)) {
			if (exchange(flow, 0) && confirmed)
				uncount(state);
			return HOST_DROP_NOT_ALLOWED;
		}
		state = with_generation(state, generation);
	}
	state = seen_in(state, now, packet);
	if (!confirmed && state & HOST_FLOW_ANSWERED && !opens(packet)) {
		if (keep_confirmed(tag, &name->client, state,
				   in->entry->host_port)) {
			exchange(flow, 0);
			return HOST_IN;
		}
		count_of_port(in->entry->host_port, HOST_FLOWS_FULL);
	}
	if (state != flow->state)
		exchange(flow, state);
	return HOST_IN;
}

/* Fills in `in` from the place of the entry. */
static __always_inline bool fill(struct inbound *in, __u32 place)
{
	in->place = place;
	in->entry = entries_at(place);
	in->port = in->entry ? ports_at(in->entry->host_port) : NULL;
	return in->port;
}

/* Returns HOST_IN or a drop. `place` is the entry's, `tag` the flow's, or 0. */
__noinline int flow_in(const struct host_packet *packet, __u32 place, __u64 tag)
{
	const struct host_settings *node = &settings;
	struct flow_name name;
	struct flow flow = {};
	bool confirmed, known;
	__u32 now, idle;
	struct inbound own, *in = &own;

	if (!packet || !fill(in, place))
		return HOST_DROP_INTERNAL;
	name_in(&name, packet, in);
	if (!tag)
		tag = tag_of(&name);
	idle = 0;
	confirmed = known = find_confirmed(&flow, tag, node);
	if (!known) {
		idle = node->half_open_idle;
		known = find_half_open(&flow, tag, name.host_port, node);
	}
	/* read after the state, whose time is then not in the future */
	now = now_in_units();
	if (known && age_of(flow.state, now) >
			     (idle ? idle : idle_of(flow.state, node))) {
		if (exchange(&flow, 0) && confirmed)
			uncount(flow.state);
		known = false;
	}
	if (known && (place_of(flow.state) != in->place ||
		      flow.state & HOST_FLOW_DIRECT)) {
		if (!(flow.state & (HOST_FLOW_CLOSING | HOST_FLOW_DIRECT)))
			return HOST_DROP_COLLISION;
		if (exchange(&flow, 0) && confirmed)
			uncount(flow.state);
		known = false;
	}
	if (known)
		return go_on(&flow, &name, tag, in, packet, now, confirmed);
	if (confirmed && !find_half_open(&flow, tag, name.host_port, node) &&
	    !flow.set)
		return HOST_DROP_INTERNAL;
	return begin_flow(&flow, &name, tag, in, packet, now);
}

static __always_inline __u64 usual_tag_in(const struct host_packet *packet,
					  const struct host_entry *entry,
					  const struct host_settings *node)
{
	__u64 end = end_of_name(entry->host_port, entry->protocol, entry->port,
				packet->source_port);

	return tag_from(siphash(&entry->fixed, &packet->transport.source, end,
				packet->transport.version == 6, node));
}

/* flow_in(), but without a full lookup for nearly all packets. */
static __always_inline int usual_flow_in(const struct host_packet *packet,
					 const struct host_port *port,
					 __u32 place, __u64 tag,
					 const struct host_flow_line *line,
					 const struct host_settings *node)
{
	if (is_amid_flow(packet) && line &&
	    simply_goes_on(line, tag, place, port->generation, node))
		return HOST_IN;
	return flow_in(packet, place, tag);
}

/* Whether the flow of a packet, which is no ICMP error, is known for the entry
 * at this place. */
__noinline int is_known(const struct host_packet *packet, __u32 place)
{
	const struct host_settings *node = &settings;
	struct flow_name name;
	struct flow flow = {};
	struct inbound own, *in = &own;
	__u32 now, idle = 0;
	__u64 tag;

	if (!packet || !fill(in, place) || !is_used(in->entry))
		return false;
	name_in(&name, packet, in);
	tag = tag_of(&name);
	if (!find_confirmed(&flow, tag, node)) {
		if (!find_half_open(&flow, tag, name.host_port, node))
			return false;
		idle = node->half_open_idle;
	}
	/* read after the state, whose time is then not in the future */
	now = now_in_units();
	return place_of(flow.state) == place &&
	       !(flow.state & HOST_FLOW_DIRECT) &&
	       age_of(flow.state, now) <=
		       (idle ? idle : idle_of(flow.state, node));
}

/* Whether the flow of an ICMP error's quote is known and still allowed. */
__noinline int flow_of_error(const struct host_packet *quote, __u32 place)
{
	const struct host_settings *node = &settings;
	struct flow_name name;
	struct flow flow = {};
	struct inbound own, *in = &own;
	__u64 tag;

	if (!quote || !fill(in, place))
		return HOST_DROP_INTERNAL;
	name_in(&name, quote, in);
	name.client = quote->transport.destination;
	name.client_port = quote->destination_port;
	tag = tag_of(&name);
	if (!find_confirmed(&flow, tag, node) &&
	    !find_half_open(&flow, tag, name.host_port, node))
		return HOST_DROP_ICMP;
	if (place_of(flow.state) != in->place || flow.state & HOST_FLOW_DIRECT)
		return HOST_DROP_ICMP;
	if (generation_of(flow.state) != in->port->generation &&
	    !admits(in->entry, &name.client))
		return HOST_DROP_NOT_ALLOWED;
	return HOST_IN;
}

#endif
