/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From an IP header, anywhere in a frame, to the transport's header. */
#ifndef OXP_TRANSPORT_H
#define OXP_TRANSPORT_H

#include "frame.h"
#include "ip_address.h"
#include "protocols.h"

static __always_inline struct ip_address mapped(__be32 v4)
{
	struct ip_address out = {.bytes = {[10] = 0xff, [11] = 0xff}};

	__builtin_memcpy(out.bytes + 12, &v4, sizeof(v4));
	return out;
}

/* Initialise with zeroes: for fields that a path leaves unset, the compiler may
 * use any register, even one that the verifier considers uninitialised. */
struct transport {
	struct ip_address source, destination;
	__u32 offset; /* of its header, from the start of the frame */
	__u8 protocol;
	__u8 version;
	__u8 later;    /* a fragment without the transport's header */
	__u8 fragment; /* including the first, but no atomic one */
	__be32 id;     /* of a fragment */
};

/* Skips at most EXTENSIONS_MAX extension headers. */
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
			if (header.fragment & bpf_htons(IPV6_FRAGMENT_OFFSET))
				out->later = 1;
			if (header.fragment & bpf_htons(IPV6_FRAGMENT_OFFSET |
							IPV6_MORE_FRAGMENTS)) {
				out->fragment = 1;
				if (frame_load(ctx, skb, out->offset - 4,
					       &out->id, sizeof(out->id)))
					return -1;
			}
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
	out->fragment = 0;
	out->version = first >> 4;
	if (out->version == 4) {
		struct iphdr ip;

		if (frame_load(ctx, skb, offset, &ip, sizeof(ip)) || ip.ihl < 5)
			return -1;
		out->source = mapped(ip.saddr);
		out->destination = mapped(ip.daddr);
		out->protocol = ip.protocol;
		out->offset = offset + ip.ihl * 4;
		out->later = !!(ip.frag_off & bpf_htons(IP_FRAGMENT_OFFSET));
		out->fragment = !!(ip.frag_off & bpf_htons(IP_FRAGMENT_OFFSET |
							   IP_MORE_FRAGMENTS));
		out->id = ip.id;
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

static __always_inline bool is_error(const struct transport *transport,
				     __u8 type)
{
	if (transport->version == 4 && transport->protocol == IPPROTO_ICMP)
		return is_icmp_error(type, false);
	if (transport->version == 6 && transport->protocol == IPPROTO_ICMPV6)
		return is_icmp_error(type, true);
	return false;
}

#endif
