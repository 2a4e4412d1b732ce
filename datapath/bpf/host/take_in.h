/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the NIC to the tap. */
#ifndef OXP_HOST_TAKE_IN_H
#define OXP_HOST_TAKE_IN_H

#include "decapsulate.h"
#include "host/arrive.h"
#include "host/echo.h"
#include "host/inbound.h"
#include "host/rewrite.h"

/* The packet that an ICMP error quotes must be one of the key's listener. */
__noinline int error_in(struct __sk_buff *skb, const struct host_packet *error,
			__u32 place)
{
	const struct host_entry *entry = entries_at(place);
	struct host_packet quote = {};

	if (!error || !entry || read_quote(skb, error, &quote) ||
	    quote.transport.protocol != entry->protocol ||
	    !same_address(&quote.transport.source, &entry->vip) ||
	    quote.source_port != entry->vip_port)
		return HOST_DROP_ICMP;
	return flow_of_error(&quote, place);
}

/* The inner packet must be for the key's listener, and its client allowed. */
static __always_inline int decide_in(struct __sk_buff *skb,
				     const struct host_packet *packet,
				     const struct host_entry *entry,
				     __u32 place)
{
	if (!same_address(&packet->transport.destination, &entry->vip))
		return HOST_DROP_MISMATCH;
	if (packet->error)
		return error_in(skb, packet, place);
	if (packet->echo == ECHO_REQUEST)
		return echo_in(packet, place);
	if (packet->transport.protocol != entry->protocol ||
	    (packet->has_ports && packet->destination_port != entry->vip_port))
		return HOST_DROP_MISMATCH;
	if (!packet->has_ports) /* a later fragment, without a flow */
		return admits(entry, &packet->transport.source)
			       ? HOST_IN
			       : HOST_DROP_NOT_ALLOWED;
	return flow_in(packet, place, 0);
}

static __always_inline void change_in(struct rewriting *change,
				      const struct host_entry *entry)
{
	change->from = entry->vip;
	change->to = entry->fixed;
	change->from_port = entry->vip_port;
	change->to_port = entry->port;
}

/* To be called after the outer headers are removed, before deliver(). Separate,
 * as are others, because the combined stack of nested calls is limited. */
__noinline int deliver_quote(struct __sk_buff *skb,
			     const struct host_packet *error, __u32 place)
{
	const struct host_entry *entry = entries_at(place);
	struct rewriting change = {};

	if (!entry || !error)
		return -1;
	change_in(&change, entry);
	return rewrite_quote(skb, error, &change, WAY_IN);
}

/* After the outer headers are removed; `ecn` is the new value, or negative. */
__noinline int deliver(struct __sk_buff *skb, const struct host_packet *packet,
		       __u32 place, int ecn)
{
	const struct host_entry *entry = entries_at(place);
	struct rewriting change = {};

	if (!entry || !packet)
		return -1;
	change_in(&change, entry);
	change.ecn = ecn;
	__builtin_memcpy(change.macs, entry->macs, sizeof(change.macs));
	return rewrite(skb, packet, &change, WAY_IN);
}

static __always_inline void count_in(const struct seen *seen)
{
	struct host_counters *own = counters_at(seen->place);

	if (own) {
		own->packets_in++;
		own->bytes_in += seen->length;
	}
}

/* For nearly all packets: usual ones, for the key's listener. All others, and
 * errors, are left to take_in(), with nothing changed. */
__noinline int take_usual_in(struct __sk_buff *skb)
{
	const struct host_settings *node = &settings;
	struct seen seen = {.hook = HOST_NIC};
	const struct host_entry *entry;
	struct host_packet packet = {};
	struct arrived arrived = {};
	struct chance none = {};
	const struct host_flow_line *line;
	const struct host_port *port;
	int outcome;
	__u64 tag;

	if (skb->vlan_present ||
	    arrive(skb, &arrived, &seen, node, &none, false) != HOST_IN ||
	    !read_usual(skb, ETH_HLEN + arrived.tunnel.length, &packet) ||
	    !can_be_rewritten(&packet) ||
	    (arrived.tunnel.tos | arrived.tunnel.inner_tos) & ECN_MASK)
		return TO_BE_DECIDED;
	entry = arrived.entry;
	port = ports_at(seen.host_port);
	if (!entry || !port || !port->ifindex ||
	    !same_address(&packet.transport.destination, &entry->vip) ||
	    packet.transport.protocol != entry->protocol ||
	    packet.destination_port != entry->vip_port)
		return TO_BE_DECIDED;
	tag = usual_tag_in(&packet, entry, node);
	line = fetch_line(tag, node);
	/* The lookup can wait: the packet goes to the member or is dropped. */
	if (decapsulate_skb(skb, &arrived.tunnel, false) ||
	    rewrite_usual(skb, &packet, entry, WAY_IN))
		return drop(skb, &seen, HOST_DROP_INTERNAL);
	outcome = usual_flow_in(&packet, port, seen.place, tag, line, node);
	if (outcome != HOST_IN)
		return drop(skb, &seen, outcome);
	count_in(&seen);
	trace_if_wanted(skb, &seen, HOST_IN);
	skb->mark = HOST_MARK;
	return bpf_redirect(port->ifindex, 0);
}

__noinline int take_in(struct __sk_buff *skb, const struct chance *known)
{
	const struct host_settings *node = &settings;
	struct seen seen = {
		.hook = HOST_NIC, .place = HOST_NO_PLACE, .host_port = NO_PORT};
	struct host_packet packet = {};
	struct arrived arrived = {};
	struct host_port *port;
	struct chance chance;
	int outcome, ecn;

	if (!known || skb->vlan_present)
		return TC_ACT_UNSPEC;
	chance = *known;
	pull_headers(skb);
	outcome = arrive(skb, &arrived, &seen, node, &chance, false);
	if (outcome == HOST_PASS)
		return TC_ACT_UNSPEC;
	if (outcome != HOST_IN)
		return drop(skb, &seen, outcome);
	port = ports_at(seen.host_port);
	if (!port || !arrived.entry)
		return drop(skb, &seen, HOST_DROP_INTERNAL);
	if (!read_usual(skb, ETH_HLEN + arrived.tunnel.length, &packet)) {
		__builtin_memset(&packet, 0, sizeof(packet));
		if (read_any(skb, ETH_HLEN + arrived.tunnel.length, &packet))
			return drop(skb, &seen, HOST_DROP_MALFORMED);
	}
	ecn = combined_ecn(arrived.tunnel.inner_tos & ECN_MASK,
			   arrived.tunnel.tos & ECN_MASK);
	if (ecn < 0)
		return drop(skb, &seen, HOST_DROP_ECN);
	if (!port->ifindex)
		return drop(skb, &seen, HOST_DROP_NO_TAP);
	outcome = decide_in(skb, &packet, arrived.entry, seen.place);
	if (outcome != HOST_IN)
		return drop(skb, &seen, outcome);
	if (decapsulate_skb(skb, &arrived.tunnel, false))
		return drop(skb, &seen, HOST_DROP_INTERNAL);
	packet.ip -= arrived.tunnel.length;
	packet.transport.offset -= arrived.tunnel.length;
	if (ecn == (arrived.tunnel.inner_tos & ECN_MASK))
		ecn = -1;
	if ((packet.error && deliver_quote(skb, &packet, seen.place)) ||
	    deliver(skb, &packet, seen.place, ecn))
		return drop(skb, &seen, HOST_DROP_INTERNAL);
	count_in(&seen);
	trace_if_wanted(skb, &seen, HOST_IN);
	skb->mark = HOST_MARK;
	return bpf_redirect(port->ifindex, 0);
}

#endif
