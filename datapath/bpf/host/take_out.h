/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the tap to the client. */
#ifndef OXP_HOST_TAKE_OUT_H
#define OXP_HOST_TAKE_OUT_H

#include "host/echo.h"
#include "host/outbound.h"
#include "host/rewrite.h"
#include "host/too_big.h"
#include "mss.h"

/* What flow_out() says of the packet that a member's ICMP error quotes: a
 * client's, as it came to the member. */
__noinline __u32 error_out(struct __sk_buff *skb,
			   const struct host_packet *error)
{
	struct host_packet quote = {};
	struct host_listener *listener;
	struct ip_address client;
	__be16 port;

	if (!error || read_quote(skb, error, &quote) ||
	    !same_address(&quote.transport.destination,
			  &error->transport.source))
		return HOST_PASS;
	client = quote.transport.source;
	quote.transport.source = quote.transport.destination;
	quote.transport.destination = client;
	port = quote.source_port;
	quote.source_port = quote.destination_port;
	quote.destination_port = port;
	quote.error = 1;
	listener = find_listener(skb->ifindex, quote.transport.protocol,
				 quote.source_port, &quote.transport.source);
	if (!listener)
		return HOST_PASS;
	return flow_out(&quote, listener->place);
}

static __always_inline void key_of_fragment(struct host_fragment *key,
					    const struct host_packet *packet,
					    __u32 ifindex)
{
	key->source = packet->transport.source;
	key->destination = packet->transport.destination;
	key->ifindex = ifindex;
	key->id = packet->transport.id;
	key->protocol = packet->transport.protocol;
}

static __noinline int keep_fragment(const struct host_packet *packet,
				    __u32 ifindex, __u32 place)
{
	struct host_fragment key = {};

	key_of_fragment(&key, packet, ifindex);
	return bpf_map_update_elem(&fragments, &key, &place, BPF_ANY);
}

static __noinline int find_fragment(const struct host_packet *packet,
				    __u32 ifindex)
{
	struct host_fragment key = {};
	__u32 *found;

	key_of_fragment(&key, packet, ifindex);
	found = bpf_map_lookup_elem(&fragments, &key);
	return found ? HOST_OUT | *found << PLACE_SHIFT : HOST_PASS;
}

/* As flow_out(). */
static __always_inline __u32 decide_out(struct __sk_buff *skb,
					const struct host_packet *packet,
					const struct host_settings *node)
{
	const struct host_entry *entry;
	struct host_listener *listener;
	__u32 outcome;

	if (packet->transport.later)
		return find_fragment(packet, skb->ifindex);
	if (packet->error)
		return error_out(skb, packet);
	if (packet->echo)
		return echo_out(packet, skb->ifindex);
	listener =
		find_listener(skb->ifindex, packet->transport.protocol,
			      packet->source_port, &packet->transport.source);
	if (!listener)
		return HOST_PASS;
	entry = entries_at(listener->place);
	if (entry && is_known_out(packet, listener->place, entry, node))
		return HOST_OUT | listener->place << PLACE_SHIFT;
	outcome = flow_out(packet, listener->place);
	if (outcome == HOST_GUESSED)
		outcome = guess(packet, listener->place, listener->count) |
			  listener->place << PLACE_SHIFT;
	return outcome;
}

static __always_inline void change_out(struct rewriting *change,
				       const struct host_entry *entry)
{
	change->from = entry->fixed;
	change->to = entry->vip;
	change->from_port = entry->port;
	change->to_port = entry->vip_port;
	change->ecn = -1;
}

__noinline int send_quote_out(struct __sk_buff *skb,
			      const struct host_packet *error, __u32 place)
{
	const struct host_entry *entry = entries_at(place);
	struct rewriting change = {};

	if (!entry || !error)
		return -1;
	change_out(&change, entry);
	return rewrite_quote(skb, error, &change, WAY_OUT);
}

__noinline int send_out(struct __sk_buff *skb, const struct host_packet *packet,
			__u32 place)
{
	const struct host_entry *entry = entries_at(place);
	struct rewriting change = {};

	if (!entry || !packet)
		return -1;
	change_out(&change, entry);
	if (packet->tcp_flags & TCP_SYN &&
	    clamp_mss(skb, true, &packet->transport, entry->mss) < 0)
		return -1;
	return rewrite(skb, packet, &change, WAY_OUT);
}

static __always_inline void count_out(const struct seen *seen)
{
	struct host_counters *own = counters_at(seen->place);

	if (own) {
		own->packets_out++;
		own->bytes_out += seen->length;
	}
}

/* What is left untouched costs the headers and one look-up. */
static __always_inline int take_out(struct __sk_buff *skb)
{
	struct seen seen = {.hook = HOST_TAP_IN,
			    .place = HOST_NO_PLACE,
			    .host_port = NO_PORT};
	const struct host_settings *node = settings_at(0);
	struct host_packet packet = {};
	const struct host_entry *entry;
	__u32 outcome;
	bool usual;
	int action;

	if (!node || skb->vlan_present)
		return TC_ACT_UNSPEC;
	usual = read_usual(skb, ETH_HLEN, &packet);
	if (!usual) {
		__builtin_memset(&packet, 0, sizeof(packet));
		if ((skb->protocol != bpf_htons(ETH_P_IP) &&
		     skb->protocol != bpf_htons(ETH_P_IPV6)) ||
		    read_any(skb, ETH_HLEN, &packet) ||
		    !(packet.has_ports || packet.error ||
		      packet.echo == ECHO_REPLY || packet.transport.later))
			return TC_ACT_UNSPEC;
	}
	outcome = decide_out(skb, &packet, node);
	if (outcome == HOST_PASS)
		return TC_ACT_UNSPEC;
	seen.place = outcome >> PLACE_SHIFT & HOST_FLOW_PLACE_MASK;
	outcome &= (1 << PLACE_SHIFT) - 1;
	entry = entries_at(seen.place);
	if (entry) {
		seen.host_port = entry->host_port;
		seen.key = entry->key;
	}
	seen.length = packet.length;
	if (outcome != HOST_OUT)
		return drop(skb, &seen, outcome);
	if (!entry || !entry->used)
		return drop(skb, &seen, HOST_DROP_INTERNAL);
	if (!node->reply_ifindex)
		return drop(skb, &seen, HOST_DROP_NO_REPLY);
	if (packet.transport.fragment && !packet.transport.later)
		keep_fragment(&packet, skb->ifindex, seen.place);
	if (skb->len > ETH_HLEN + READ_ONCE(entry->reply_mtu)) {
		action = answer_if_too_big(skb, &packet, &seen,
					   node->reply_ifindex);
		if (action != TO_BE_DECIDED)
			return action;
	}
	if (usual && can_be_rewritten(&packet) &&
	    !(packet.tcp_flags & TCP_SYN)) {
		if (rewrite_usual(skb, &packet, entry, WAY_OUT))
			return drop(skb, &seen, HOST_DROP_INTERNAL);
	} else if ((packet.error && send_quote_out(skb, &packet, seen.place)) ||
		   send_out(skb, &packet, seen.place)) {
		return drop(skb, &seen, HOST_DROP_INTERNAL);
	}
	count_out(&seen);
	trace_if_wanted(skb, &seen, HOST_OUT);
	return bpf_redirect_neigh(node->reply_ifindex, NULL, 0, 0);
}

#endif
