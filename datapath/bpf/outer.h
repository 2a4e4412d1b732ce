/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Outer headers:
 *
 *   before   | link | client -> VIP ...
 *   IPIP     | link | node -> member |                client -> VIP ...
 *   SRv6     | link | node -> SID    |                client -> VIP ...
 *   GUE      | link | node -> member | UDP, 8 bytes | client -> VIP ...
 *   GRE      | link | node -> member | GRE, 4 bytes | client -> VIP ...
 *
 * The client's packet is carried as it came, also its TTL: for the client the
 * node is a part of the destination, not a router.
 */
#ifndef OXP_OUTER_H
#define OXP_OUTER_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "checksum.h"
#include "layout.h"

/*
 * Head: the first 8 bytes of the packet's IPv4 header as one word, or those
 * that an IPv6 packet would have in IPv4: version and ihl, TOS, length, id,
 * flags and offset, from the low bits up.
 */
#define HEAD_TOS 0xff00ULL
#define HEAD_ID 0xffff00000000ULL
#define HEAD_DF (0x40ULL << 48)

static __always_inline __u64 head_of_v4(const struct iphdr *ip)
{
	return *(const __u64 *)ip;
}

static __always_inline __u64 head_of_v6(const struct ipv6hdr *ip)
{
	__u32 class = bpf_ntohs(*(const __be16 *)ip) >> 4 & 0xff;
	__u32 length = bpf_ntohs(ip->payload_len) + sizeof(*ip);

	/* 65536 bytes and more do not fit frames */
	return 0x45 | class << 8 | (__u64)bpf_htons(length) << 16 | HEAD_DF;
}

static __always_inline __u32 head_length(__u64 head)
{
	return bpf_ntohs((__u16)(head >> 16));
}

static __always_inline __u8 head_tos(__u64 head)
{
	return head >> 8;
}

#define OUTER_TTL 64

/* What a packet becomes. The low bit of the way tells IPv6, the others the
 * kind. */
static __always_inline bool is_outer_v6(__u32 way)
{
	return way & 1;
}

/* The node's address, or the last word of it, with the flow's bits. */
static __always_inline __be32 outer_source(__be32 word, __be32 mask,
					   __u32 entropy)
{
	return (word & ~mask) | (bpf_htonl(entropy) & mask);
}

/* Bytes between the outer IP header and the packet, by kind: 0, 8, 4. */
static __always_inline __u32 shim_length(__u32 way)
{
	return 0x480 >> 4 * (way >> 1) & 15;
}

static __always_inline __u32 outer_length(__u32 way)
{
	if (way == WAY_DSCP)
		return 0;
	return (is_outer_v6(way) ? 40 : 20) + shim_length(way);
}

static __always_inline __u16 gue_source_port(__u32 entropy)
{
	return 0xc000 | (entropy & 0x3fff);
}

/* GUE's UDP header or GRE's, if the way has one. */
static __always_inline void push_shim(void *shim, __u32 way, __u32 length,
				      __u32 entropy, bool v6)
{
	__be16 *word = shim;

	if (way >> 1 == WAY_GUE_V4 >> 1) {
		word[0] = bpf_htons(gue_source_port(entropy));
		word[1] = bpf_htons(OXP_GUE_PORT);
		word[2] = bpf_htons(length + 8);
		word[3] = 0; /* RFC 6935 */
	} else if (way >> 1 == WAY_GRE_V4 >> 1) {
		word[0] = 0;
		word[1] = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	}
}

static __always_inline __u8 outer_protocol(__u32 way, bool v6)
{
	if (way >> 1 == WAY_GUE_V4 >> 1)
		return IPPROTO_UDP;
	if (way >> 1 == WAY_GRE_V4 >> 1)
		return IPPROTO_GRE;
	return v6 ? IPPROTO_IPV6 : IPPROTO_IPIP;
}

/* `outer` has 20 bytes. */
static __always_inline void push_v4(void *outer, __u64 head, __u32 way,
				    __be32 source, __be32 destination, bool v6)
{
	__u32 length = head_length(head) + 20 + shim_length(way);
	__u32 ttl = OUTER_TTL | (__u32)outer_protocol(way, v6) << 8;
	__u32 *word = outer;
	__u64 sum;

	/* id and DF as they are: where fragments are allowed on the way, the
	 * id must tell packets apart */
	head = (head & (HEAD_DF | HEAD_ID | HEAD_TOS)) | 0x45 |
	       (__u64)bpf_htons(length) << 16;
	sum = (head & 0xffffffff) + (head >> 32) + ttl + source + destination;
	word[0] = head;
	word[1] = head >> 32;
	word[2] = ttl | (__u32)(__u16)~fold(sum) << 16;
	word[3] = source;
	word[4] = destination;
}

/* `outer` has 40 bytes. */
static __always_inline void push_v6(void *outer, __u64 head, __u32 way,
				    __u32 entropy,
				    const struct node_config *node,
				    const __be32 *destination, bool v6)
{
	__u32 *word = outer;

	word[0] = bpf_htonl(6U << 28 | (__u32)head_tos(head) << 20 |
			    (entropy & 0xfffff));
	word[1] = bpf_htons(head_length(head) + shim_length(way)) |
		  (__u32)outer_protocol(way, v6) << 16 | (__u32)OUTER_TTL << 24;
	word[2] = node->source_v6[0];
	word[3] = node->source_v6[1];
	word[4] = node->source_v6[2];
	word[5] = outer_source(node->source_v6[3], node->entropy_v6, entropy);
	word[6] = destination[0];
	word[7] = destination[1];
	word[8] = destination[2];
	word[9] = destination[3];
}

#endif
