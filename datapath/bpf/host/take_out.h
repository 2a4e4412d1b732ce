/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the tap to the client. */
#ifndef OXP_HOST_TAKE_OUT_H
#define OXP_HOST_TAKE_OUT_H

#include "host/echo.h"
#include "host/fragments.h"
#include "host/outbound.h"
#include "host/rewrite.h"
#include "host/too_big.h"
#include "mss.h"

/* Result of flow_out() for the packet that a member's ICMP error quotes, which
 * is a client's as it came to the member. */
__noinline __u32 error_out(struct __sk_buff *skb,
			   const struct host_packet *error)
{
	struct host_packet quote = {};
	struct ip_address client;
	__u32 place;
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
	place = place_of_listener(skb->ifindex, quote.transport.protocol,
				  quote.source_port, &quote.transport.source);
	return place == HOST_NO_PLACE ? HOST_PASS : flow_out(&quote, place);
}

/* Undoes the changes of rewrite_usual() to a usual packet. */
static __always_inline int take_back(struct __sk_buff *skb,
				     const struct host_packet *packet,
				     const struct host_entry *entry,
				     __be16 header_check)
{
	const bool udp = packet->transport.protocol == IPPROTO_UDP;
	const bool v6 = packet->transport.version == 6;
	const __u32 l4 =
		ETH_HLEN + (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	__u32 at = udp ? offsetof(struct udphdr, check)
		       : offsetof(struct tcphdr, check);
	__u32 change = change_of_address(&entry->vip, &entry->fixed, v6);
	void *data, *ports;

	/* to keep the kernel's checksum state valid */
	if ((!udp || packet->check) &&
	    bpf_l4_csum_replace(skb, l4 + at, 0, change, BPF_F_PSEUDO_HDR))
		return -1;
	if (v6 && (!udp || packet->check))
		bpf_csum_update(skb, change);
	data = (void *)(long)skb->data;
	ports = data + l4;
	if (ports + sizeof(struct tcphdr) > (void *)(long)skb->data_end)
		return -1;
	*(__be16 *)(ports + at) = packet->check;
	*(__be16 *)ports = packet->source_port;
	if (v6) {
		struct ipv6hdr *ip6 = data + ETH_HLEN;

		__builtin_memcpy(&ip6->saddr, &packet->transport.source, 16);
	} else {
		struct iphdr *ip = data + ETH_HLEN;

		ip->saddr = last_word(&packet->transport.source);
		ip->check = header_check;
	}
	return 0;
}

/* Whether to ask the kernel if the packet fits. */
static __always_inline bool is_large(struct __sk_buff *skb,
				     const struct host_entry *entry)
{
	return skb->len > ETH_HLEN + READ_ONCE(entry->reply_mtu);
}

#define OUT_DONE HOST_OUTCOMES /* HOST_OUT, and the packet is rewritten */

/*
 * For nearly all packets: of the only listener, or of the flow's listener, and
 * amid a flow. Unless the packet is large it is changed while the flow's line
 * is being loaded. Returns OUT_DONE, HOST_OUT or a drop; HOST_PASS: the full
 * lookup decides, and the packet is unchanged.
 */
__noinline int usual_out(struct __sk_buff *skb,
			 const struct host_packet *packet, __u32 place)
{
	void *data = (void *)(long)skb->data;
	const struct host_settings *node = &settings;
	const struct host_entry *entry = entries_at(place);
	const struct host_flow_line *line;
	const struct host_port *port;
	__be16 header_check;
	__u64 end, tag;
	bool large;

	if (!packet || !entry || !is_used(entry) || !node->reply_ifindex ||
	    !is_amid_flow(packet) || !can_be_rewritten(packet))
		return HOST_PASS;
	port = ports_at(entry->host_port);
	if (!port || data + LINK_AND_V4 > (void *)(long)skb->data_end)
		return HOST_PASS;
	end = end_of_name(entry->host_port, packet->transport.protocol,
			  packet->source_port, packet->destination_port);
	tag = tag_from(siphash(&packet->transport.source,
			       &packet->transport.destination, end,
			       packet->transport.version == 6, node));
	line = fetch_line(tag, node);
	header_check = ((struct iphdr *)(data + ETH_HLEN))->check;
	large = is_large(skb, entry);
	if (!large && rewrite_usual(skb, packet, entry, WAY_OUT))
		return HOST_DROP_INTERNAL;
	if (line && simply_goes_on(line, tag, place, port->generation, node))
		return large ? HOST_OUT : OUT_DONE;
	if (large)
		return HOST_PASS;
	return take_back(skb, packet, entry, header_check) ? HOST_DROP_INTERNAL
							   : HOST_PASS;
}

/* Returns the same as flow_out(); *done: the packet is rewritten. */
static __always_inline __u32 decide_out(struct __sk_buff *skb,
					const struct host_packet *packet,
					bool usual, bool *done)
{
	__u32 outcome, place, ifindex = skb->ifindex;

	/* from here on not addressed relative to the context */
	barrier_var(ifindex);
	if (packet->transport.later)
		return find_fragment(packet, ifindex);
	if (packet->error)
		return error_out(skb, packet);
	if (packet->echo)
		return echo_out(packet, ifindex);
	/* the VM's own connection, even if a flow has its name */
	if (opens(packet))
		return HOST_PASS;
	place = place_of_listener(ifindex, packet->transport.protocol,
				  packet->source_port,
				  &packet->transport.source);
	if (place == HOST_NO_PLACE)
		return HOST_PASS;
	if (usual) {
		outcome = usual_out(skb, packet, place);
		*done = outcome == OUT_DONE;
		if (*done)
			outcome = HOST_OUT;
		if (outcome != HOST_PASS)
			return outcome | place << PLACE_SHIFT;
	}
	return flow_out(packet, place);
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

/* Rewrites what usual_out() has not. */
static __always_inline int rewrite_out(struct __sk_buff *skb,
				       const struct host_packet *packet,
				       const struct host_entry *entry,
				       __u32 place, bool usual)
{
	if (usual && can_be_rewritten(packet) && !(packet->tcp_flags & TCP_SYN))
		return rewrite_usual(skb, packet, entry, WAY_OUT);
	return (packet->error && send_quote_out(skb, packet, place)) ||
	       send_out(skb, packet, place);
}

static __always_inline void count_out(const struct seen *seen)
{
	struct host_counters *own = counters_at(seen->place);

	if (own) {
		own->packets_out++;
		own->bytes_out += seen->length;
	}
}

/* Packets that are left alone cost parsing and one lookup. */
static __always_inline int take_out(struct __sk_buff *skb)
{
	struct seen seen = {.hook = HOST_TAP_IN,
			    .place = HOST_NO_PLACE,
			    .host_port = NO_PORT};
	const struct host_settings *node = &settings;
	struct host_packet packet = {};
	const struct host_entry *entry;
	__u32 outcome;
	bool usual, done = false;
	int action;

	if (skb->vlan_present)
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
	outcome = decide_out(skb, &packet, usual, &done);
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
	if (!entry || !is_used(entry))
		return drop(skb, &seen, HOST_DROP_INTERNAL);
	if (!node->reply_ifindex)
		return drop(skb, &seen, HOST_DROP_NO_REPLY);
	if (packet.transport.fragment && !packet.transport.later)
		keep_fragment(&packet, skb->ifindex, seen.place);
	if (!done && is_large(skb, entry)) {
		action = answer_if_too_big(skb, &packet, &seen,
					   node->reply_ifindex);
		if (action != TO_BE_DECIDED)
			return action;
	}
	if (!done && rewrite_out(skb, &packet, entry, seen.place, usual))
		return drop(skb, &seen, HOST_DROP_INTERNAL);
	count_out(&seen);
	trace_if_wanted(skb, &seen, HOST_OUT);
	return bpf_redirect_neigh(node->reply_ifindex, NULL, 0, 0);
}

#endif
