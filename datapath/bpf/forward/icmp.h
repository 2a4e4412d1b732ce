/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP and ICMPv6 to a VIP. Errors follow the flow of the packet that they
 * quote, which a member sent from the VIP. Only the quoted IP header and ports
 * are needed, the minimum of RFC 792.
 */
#ifndef OXP_ICMP_H
#define OXP_ICMP_H

#include "checksum.h"
#include "forward/budget.h"
#include "forward/fragments.h"
#include "forward/martian.h"
#include "forward/quote.h"
#include "forward/record.h"
#include "forward/select.h"
#include "forward/send.h"

#define ECHO_TTL 64

static __always_inline bool is_echo(__u8 type, bool v6)
{
	return type == (v6 ? ICMPV6_ECHO_REQUEST : ICMP_ECHO);
}

static __always_inline void swap_words(__u32 *left, __u32 *right, int words)
{
	for (int i = 0; i < words; i++) {
		__u32 other = left[i];

		left[i] = right[i];
		right[i] = other;
	}
}

static __always_inline bool swap_addresses(struct xdp_md *ctx,
					   const struct packet *packet)
{
	if (packet->v6) {
		struct ipv6hdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return false;
		ip->hop_limit = ECHO_TTL;
		swap_words((__u32 *)&ip->saddr, (__u32 *)&ip->daddr, 4);
	} else {
		struct iphdr *ip = at(ctx, packet->l3, sizeof(*ip));

		if (!ip)
			return false;
		ip->check = corrected(ip->check, ip->ttl, ECHO_TTL);
		ip->ttl = ECHO_TTL;
		swap_words(&ip->saddr, &ip->daddr, 1);
	}
	return true;
}

/* Whether the frame has only zeroes in these bytes, in whichever of its
 * buffers. Steps of 32 keep the number of rounds, and so of the verifier's
 * branches, low. */
__noinline int is_all_zeroes(struct xdp_md *ctx, __u32 from, __u32 to)
{
	__u64 word[4];
	__u8 byte;

	for (__u32 i = 0; i < PACKET_END_MAX / 32 && from + 32 <= to; i++) {
		if (bpf_xdp_load_bytes(ctx, from, word, 32) ||
		    (word[0] | word[1] | word[2] | word[3]))
			return false;
		from += 32;
	}
	for (__u32 i = 0; i < 31 && from < to; i++, from++)
		if (bpf_xdp_load_bytes(ctx, from, &byte, 1) || byte)
			return false;
	return from == to;
}

/* Turns the message of an echo request into that of the reply. */
static __always_inline bool set_echo_reply(struct xdp_md *ctx,
					   const struct packet *packet)
{
	__u8 type = packet->v6 ? ICMPV6_ECHO_REPLY : ICMP_ECHOREPLY;
	__u8 *icmp = in_packet(ctx, packet, packet->l4, 8);
	__u16 check;

	if (!icmp)
		return false;
	check = corrected(*(__u16 *)(icmp + 2), icmp[0], type);
	icmp[0] = type;
	*(__u16 *)(icmp + 2) = check;
	/* The message has no pseudo-header, and for IPv4 no type other than 0.
	 * Receivers drop zeroes with checksum 0. */
	if (unlikely(!check && is_all_zeroes(ctx, packet->l4, packet->end))) {
		icmp = in_packet(ctx, packet, packet->l4, 8);
		if (!icmp)
			return false;
		*(__u16 *)(icmp + 2) = 0xffff;
	}
	return true;
}

__noinline int answer_echo(struct xdp_md *ctx, const struct packet *packet)
{
	struct ethhdr *ethernet;

	if (!packet)
		return drop(ctx, OXP_DROP_INTERNAL);
	RECORD(ECHO, !!(config.flags & OXP_NODE_ECHO));
	if (!(config.flags & OXP_NODE_ECHO))
		return XDP_PASS;
	if (is_martian(packet))
		return drop(ctx, OXP_DROP_MARTIAN);
	if (!may_answer(ANSWER_ECHO, answered(packet)))
		return XDP_PASS;
	ethernet = at(ctx, 0, sizeof(*ethernet));
	if (!ethernet || !swap_addresses(ctx, packet) ||
	    !set_echo_reply(ctx, packet))
		return drop(ctx, OXP_DROP_INTERNAL);
	swap_macs(ethernet);
	count(ctx, OXP_ECHO_REPLY);
	return XDP_TX;
}

/* Turns the quoted packet, which a member sent, into one of its client. */
static __always_inline int flow_of_quote(struct xdp_md *ctx,
					 struct packet *quote)
{
	const __be16 *ports;

	if (parse_quote(ctx, quote))
		return -1;
	ports = in_packet(ctx, quote, quote->l4, 4);
	if (!ports)
		return -1;
	swap_words(quote->source, quote->destination, 4);
	quote->source_port = ports[1];
	quote->destination_port = ports[0];
	quote->kind = KIND_QUOTED;
	quote->opens_flow = 0;
	return 0;
}

static __always_inline bool same_address(const __be32 *left,
					 const __be32 *right)
{
	return left[0] == right[0] && left[1] == right[1] &&
	       left[2] == right[2] && left[3] == right[3];
}

/* Turns the ICMP error `packet` into its quoted flow, and finds the service. */
__noinline __s64 follow_quote(struct xdp_md *ctx, struct packet *packet)
{
	__be32 vip[4];

	if (!packet)
		return NOT_FOUND;
	__builtin_memcpy(vip, packet->destination, sizeof(vip));
	packet->l3 = packet->l4 + 8;
	if (flow_of_quote(ctx, packet) ||
	    !same_address(packet->destination, vip))
		return NOT_FOUND;
	RECORD(QUOTED, packet->protocol,
	       (__u32)packet->destination_port << 16 | packet->source_port,
	       packet->source[0], packet->source[1], packet->source[2],
	       packet->source[3]);
	return find_service(packet, packet->destination_port, packet->protocol);
}

#endif
