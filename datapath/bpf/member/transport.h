/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From an IP header, anywhere in a frame, to the transport's header. */
#ifndef OXP_MEMBER_TRANSPORT_H
#define OXP_MEMBER_TRANSPORT_H

#include <linux/icmpv6.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stddef.h>

#include "member/frame.h"
#include "member/maps.h"

/* linux/icmp.h brings the C library along. */
#define ICMP_HEADER 8 /* of ICMPv6 too */
#define ICMP_CHECKSUM 2
#define ICMP_DEST_UNREACH 3
#define ICMP_SOURCE_QUENCH 4
#define ICMP_REDIRECT 5
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12

#define IP_OFFSET_MASK 0x1fff
#define IP_FRAGMENT_MASK 0x3fff /* more fragments, or an offset */
#define IP6_OFFSET_MASK 0xfff8
#define EXTENSIONS_MAX 6

/* Begin with zeroes: what a path leaves unset may be any register to the
 * compiler, also one that the verifier knows nothing of. */
struct transport {
	struct member_address source, destination;
	__u32 offset; /* of its header, from the frame's begin */
	__u8 protocol;
	__u8 version;
	__u8 later; /* a fragment without that header */
};

/* Over at most EXTENSIONS_MAX extension headers. */
static __always_inline int skip_extensions(void *ctx, const bool skb,
					   struct transport *out)
{
	for (int i = 0; i <= EXTENSIONS_MAX; i++) {
		struct {
			__u8 next;
			__u8 length;
			__be16 fragment;
		} header;

		switch (out->protocol) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_FRAGMENT:
			break;
		default:
			return 0;
		}
		if (frame_load(ctx, skb, out->offset, &header, sizeof(header)))
			return -1;
		if (out->protocol == IPPROTO_FRAGMENT) {
			out->offset += 8;
			if (header.fragment & bpf_htons(IP6_OFFSET_MASK))
				out->later = 1;
		} else {
			out->offset += (header.length + 1) * 8;
		}
		out->protocol = header.next;
		if (out->later)
			return 0;
	}
	return -1;
}

static __always_inline int find_transport(void *ctx, const bool skb,
					  __u32 offset, struct transport *out)
{
	__u8 first;

	if (frame_load(ctx, skb, offset, &first, sizeof(first)))
		return -1;
	out->later = 0;
	out->version = first >> 4;
	if (out->version == 4) {
		struct iphdr ip;

		if (frame_load(ctx, skb, offset, &ip, sizeof(ip)) || ip.ihl < 5)
			return -1;
		out->source = mapped(ip.saddr);
		out->destination = mapped(ip.daddr);
		out->protocol = ip.protocol;
		out->offset = offset + ip.ihl * 4;
		out->later = !!(ip.frag_off & bpf_htons(IP_OFFSET_MASK));
		return 0;
	}
	if (out->version == 6) {
		struct ipv6hdr ip;

		if (frame_load(ctx, skb, offset, &ip, sizeof(ip)))
			return -1;
		__builtin_memcpy(&out->source, &ip.saddr, 16);
		__builtin_memcpy(&out->destination, &ip.daddr, 16);
		out->protocol = ip.nexthdr;
		out->offset = offset + sizeof(ip);
		return skip_extensions(ctx, skb, out);
	}
	return -1;
}

/* Where a transport's checksum is, from its header on; 0: it has none. */
static __always_inline __u32 checksum_offset(const struct transport *transport)
{
	switch (transport->protocol) {
	case IPPROTO_TCP:
		return offsetof(struct tcphdr, check);
	case IPPROTO_UDP:
		return offsetof(struct udphdr, check);
	case IPPROTO_ICMPV6:
		return ICMP_CHECKSUM;
	default:
		return 0;
	}
}

static __always_inline bool is_icmp_error(const struct transport *transport,
					  __u8 type)
{
	if (transport->version == 4 && transport->protocol == IPPROTO_ICMP)
		return type == ICMP_DEST_UNREACH ||
		       type == ICMP_SOURCE_QUENCH || type == ICMP_REDIRECT ||
		       type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETERPROB;
	if (transport->version == 6 && transport->protocol == IPPROTO_ICMPV6)
		return type >= ICMPV6_DEST_UNREACH && type <= ICMPV6_PARAMPROB;
	return false;
}

#endif
