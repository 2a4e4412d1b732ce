/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet that names an alternative and whose connection is unknown goes to
 * the alternative, here or on another hypervisor.
 *
 *   LB node -> [tunnel, alternative] -> this hypervisor, which lacks the
 *                  flow -> [tunnel] -> other hypervisor, if that has it
 *
 * Only packets from LB nodes are handed on, only those of connections, and only
 * to networks of hypervisors. Packets from those networks are accepted if their
 * flow is known: they do not open any.
 */
#ifndef OXP_HOST_SECOND_CHANCE_H
#define OXP_HOST_SECOND_CHANCE_H

#include "ecn.h"
#include "hand_on.h"
#include "host/arrive.h"
#include "host/inbound.h"

/* Whether the packet belongs to a connection of the listener and does not open
 * it. A fragment goes where the other fragments of its packet go. */
static __always_inline bool is_of_connection(const struct host_packet *packet,
					     const struct host_entry *entry)
{
	if (entry->protocol != IPPROTO_TCP || packet->transport.fragment)
		return false;
	return packet->error ||
	       (packet->transport.protocol == IPPROTO_TCP && !opens(packet));
}

/* For an ICMP error, by its quote: from the VIP to a client. */
static __noinline int is_quote_here(struct __sk_buff *skb,
				    const struct host_packet *error,
				    __u32 place)
{
	const struct host_entry *entry = entries_at(place);
	struct host_packet quote = {};

	if (!entry || read_quote(skb, error, &quote) ||
	    quote.transport.protocol != entry->protocol ||
	    !same_address(&quote.transport.source, &entry->vip) ||
	    quote.source_port != entry->vip_port)
		return false;
	quote.transport.source = quote.transport.destination;
	quote.source_port = quote.destination_port;
	return is_known(&quote, place);
}

static __always_inline bool
is_here(struct __sk_buff *skb, const struct host_packet *packet, __u32 place)
{
	return packet->error ? is_quote_here(skb, packet, place)
			     : is_known(packet, place);
}

/* Loads the alternative that the packet names, in `length` bytes: the outer
 * headers end with its address. */
static __always_inline int load_named(struct __sk_buff *skb,
				      const struct tunnel *tunnel, __u32 length,
				      struct named *out)
{
	__u32 end = tunnel->link + tunnel->length;
	__be32 word[5]; /* with Geneve the first is the VNI */

	out->length = length;
	if (tunnel->version == 4) {
		if (bpf_skb_load_bytes(skb, end - 8, word, 8))
			return -1;
		out->alternative = mapped(word[1]);
	} else {
		if (bpf_skb_load_bytes(skb, end - 20, word, 20))
			return -1;
		__builtin_memcpy(&out->alternative, word + 1, 16);
	}
	out->vni = word[0];
	return 0;
}

static __always_inline bool is_own(const struct host_settings *node,
				   const struct ip_address *address,
				   const bool geneve, __u8 version)
{
	const struct in6_addr *v6 = (const void *)address;

	if (!geneve)
		return is_sid(node, v6);
	return version == 4 ? *(const __be32 *)(address->bytes + 12) ==
				      node->local_v4
			    : is_local_v6(node, v6);
}

#define AT_PEER (HOST_NO_PLACE + 1)

/* The place of an alternative on this hypervisor; AT_PEER: it is on another
 * one; HOST_NO_PLACE: neither. */
static __noinline __u32 find_alternative(struct __sk_buff *skb,
					 const struct tunnel *tunnel,
					 __u32 length)
{
	const struct host_settings *node = &settings;
	/* SRv6 has only the address and its routing header */
	bool geneve =
		tunnel->length > sizeof(struct ipv6hdr) + OXP_ALTERNATIVE_V6;
	struct named named;
	__u32 *place;

	if (tunnel->version == 4)
		geneve = true;
	if (load_named(skb, tunnel, length, &named))
		return HOST_NO_PLACE;
	if (!is_own(node, &named.alternative, geneve, tunnel->version))
		return is_of_peer(&named.alternative) ? AT_PEER : HOST_NO_PLACE;
	place = find_key(geneve ? bpf_ntohl(named.vni) >> 8
				: key_of_address(&named.alternative));
	return place ? *place : HOST_NO_PLACE;
}

static __always_inline bool is_for(const struct host_packet *packet,
				   const struct host_entry *entry)
{
	return same_address(&packet->transport.destination, &entry->vip) &&
	       (packet->error || packet->destination_port == entry->vip_port);
}

/* Returns HOST_IN, for the member whose key is then in `chance`, HOST_HANDED_ON
 * or a drop. Packets not for the key's listener are dropped later. */
static __always_inline int choose_member(struct __sk_buff *skb,
					 const struct host_packet *packet,
					 const struct arrived *arrived,
					 const struct seen *seen,
					 struct chance *chance)
{
	const struct host_entry *entry = arrived->entry;
	__u32 place;

	if (!entry || !is_of_connection(packet, entry))
		return chance->handed_on ? HOST_DROP_UNKNOWN : HOST_IN;
	if (!is_for(packet, entry))
		return HOST_IN;
	if (is_here(skb, packet, seen->place)) {
		if (chance->handed_on)
			count(HOST_SECOND_CHANCE);
		return HOST_IN;
	}
	if (chance->handed_on)
		return HOST_DROP_UNKNOWN;
	place = find_alternative(skb, &arrived->tunnel,
				 chance->named & NAMED_LENGTH);
	if (place == AT_PEER)
		return HOST_HANDED_ON;
	entry = entries_at(place);
	if (!entry || entry->protocol != IPPROTO_TCP ||
	    !is_for(packet, entry) || !is_here(skb, packet, place)) {
		count(HOST_KEPT);
		return HOST_IN;
	}
	count(HOST_SECOND_CHANCE);
	chance->key = entry->key;
	return HOST_IN;
}

static __noinline int hand_on_to_peer(struct __sk_buff *skb,
				      const struct tunnel *tunnel, __u32 length,
				      const struct seen *seen)
{
	struct named named;

	if (load_named(skb, tunnel, length, &named) ||
	    hand_on(skb, tunnel, &named))
		return drop(skb, seen, HOST_DROP_INTERNAL);
	count(HOST_HANDED_ON);
	trace_if_wanted(skb, seen, HOST_HANDED_ON);
	return bpf_redirect_neigh(skb->ifindex, NULL, 0, 0);
}

/* Returns TO_BE_DECIDED, with the data in `chance`, or the action. Only changes
 * packets that it hands on. */
__noinline int second_chance(struct __sk_buff *skb, struct chance *chance)
{
	const struct host_settings *node = &settings;
	struct seen seen = {
		.hook = HOST_NIC, .place = HOST_NO_PLACE, .host_port = NO_PORT};
	struct host_packet packet = {};
	struct arrived arrived = {};
	int outcome;

	if (!chance || skb->vlan_present)
		return TO_BE_DECIDED;
	pull_headers(skb);
	outcome = arrive(skb, &arrived, &seen, node, chance, true);
	if (!(chance->named | chance->handed_on) || outcome == HOST_PASS)
		return TO_BE_DECIDED;
	if (outcome != HOST_IN)
		return drop(skb, &seen, outcome);
	if (read_any(skb, ETH_HLEN + arrived.tunnel.length, &packet))
		return drop(skb, &seen, HOST_DROP_MALFORMED);
	if (combined_ecn(arrived.tunnel.inner_tos & ECN_MASK,
			 arrived.tunnel.tos & ECN_MASK) < 0)
		return drop(skb, &seen, HOST_DROP_ECN);
	outcome = choose_member(skb, &packet, &arrived, &seen, chance);
	if (outcome == HOST_HANDED_ON)
		return hand_on_to_peer(skb, &arrived.tunnel,
				       chance->named & NAMED_LENGTH, &seen);
	if (outcome != HOST_IN)
		return drop(skb, &seen, outcome);
	return TO_BE_DECIDED;
}

#endif
