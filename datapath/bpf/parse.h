/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a frame to what forwarding needs to know of it.
 *
 * Contract: every byte is checked against the end of the frame before it is
 * read. Nothing is decided here: parse() returns
 *   OXP_PASS       cannot be for a VIP
 *   OXP_FORWARDED  packet is filled, a service may exist for it
 *   OXP_DROP_*     what is wrong with it should its destination be a VIP;
 *                  only packet->destination is filled
 */
#ifndef OXP_PARSE_H
#define OXP_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "octavia_xdp.h"

#define IP_DONT_FRAGMENT 0x4000
#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAGMENT_OFFSET 0x1fff

struct packet {
	__be32 source;
	__be32 destination;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 tos;
	__u8 opens_flow;   /* TCP SYN without ACK */
	__be16 id;         /* of the IP header */
	__be16 fragment;   /* flags and offset of the IP header */
	__u16 length;      /* of the IP packet, by its header */
	__u32 room_needed; /* IP packet with what the frame adds behind it */
};

static __always_inline enum oxp_outcome
parse_l4(void *l4, void *end, __u32 length, struct packet *packet)
{
	if (packet->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = l4;

		if (length < sizeof(*tcp) || (void *)(tcp + 1) > end)
			return OXP_DROP_MALFORMED;
		packet->source_port = tcp->source;
		packet->destination_port = tcp->dest;
		packet->opens_flow = tcp->syn && !tcp->ack;
	} else {
		struct udphdr *udp = l4;

		if (length < sizeof(*udp) || (void *)(udp + 1) > end)
			return OXP_DROP_MALFORMED;
		packet->source_port = udp->source;
		packet->destination_port = udp->dest;
		packet->opens_flow = 0;
	}
	return OXP_FORWARDED;
}

static __always_inline enum oxp_outcome parse(struct xdp_md *ctx,
					      struct packet *packet)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(ethernet + 1);
	__u32 header, length;

	if ((void *)(ip + 1) > end)
		return OXP_PASS;
	if (ethernet->h_proto != bpf_htons(ETH_P_IP) || ip->version != 4)
		return OXP_PASS;
	/* ICMP among others: the stack's business */
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP)
		return OXP_PASS;

	packet->destination = ip->daddr;
	packet->fragment = ip->frag_off;
	if (ip->frag_off & bpf_htons(IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET))
		return OXP_DROP_FRAGMENT;

	packet->source = ip->saddr;
	packet->protocol = ip->protocol;
	packet->tos = ip->tos;
	packet->id = ip->id;
	packet->length = bpf_ntohs(ip->tot_len);
	packet->room_needed = end - (void *)ip;

	header = ip->ihl * 4;
	length = packet->length;
	if (header < sizeof(*ip) || length < header ||
	    length > packet->room_needed)
		return OXP_DROP_MALFORMED;
	return parse_l4((void *)ip + header, end, length - header, packet);
}

#endif
