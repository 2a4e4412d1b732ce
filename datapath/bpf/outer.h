/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Outer headers:
 *
 *   before   | link | client -> VIP ...
 *   IPIP     | link | node -> member |                 client -> VIP ...
 *   SRv6     | link | node -> SID    |                 client -> VIP ...
 *   GUE      | link | node -> member | UDP, 8 bytes  | client -> VIP ...
 *   GRE      | link | node -> member | GRE, 4 bytes  | client -> VIP ...
 *   Geneve   | link | node -> member | UDP, 16 bytes | client -> VIP ...
 *
 * The client's packet is carried unchanged, including its TTL: to the client
 * the node is part of the destination, not a router.
 */
#ifndef OXP_OUTER_H
#define OXP_OUTER_H

#include <linux/bpf.h>

#include "checksum.h"
#include "layout.h"
#include "protocols.h"

/*
 * Head: the first 8 bytes of an IPv4 header as one word, for IPv6 packets those
 * that they would have in IPv4: version and ihl, TOS, length, id, flags and
 * offset, from the low bits up.
 */
#define HEAD_TOS 0xff00ULL
#define HEAD_LENGTH_SHIFT 16
#define HEAD_LENGTH (0xffffULL << HEAD_LENGTH_SHIFT)
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

	/* 65536 bytes and more do not fit in a frame */
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

#define ASSERT_KIND(kind)                                                      \
	_Static_assert(!(kind##_V4 & 1) && kind##_V6 == kind##_V4 + 1, #kind)
ASSERT_KIND(OUTER_IPIP);
ASSERT_KIND(OUTER_GUE);
ASSERT_KIND(OUTER_GRE);
ASSERT_KIND(OUTER_GENEVE);
#undef ASSERT_KIND

static __always_inline bool is_outer_v6(__u32 outer_type)
{
	return outer_type & 1;
}

_Static_assert(OUTER_PORT > OUTER_NONE && !(OUTER_PORT & OUTER_NONE),
	       "a bit of its own");

static __always_inline __u32 without_port(__u32 outer_type)
{
	return outer_type & ~OUTER_PORT;
}

/* IPIP, GUE, GRE or Geneve, the same over IPv4 and IPv6. */
#define OUTER_KIND(outer_type) ((outer_type) >> 1)

static __always_inline bool is_kind(__u32 outer_type, const __u32 type)
{
	return OUTER_KIND(outer_type) == OUTER_KIND(type);
}

/* All types except OUTER_NONE, one bit each: comparisons would cost more, and
 * nearly all packets come here. */
#define OUTER_HEADERS ((1 << OUTER_NONE) - 1 | 3 << OUTER_GENEVE_V4)
_Static_assert((OUTER_GENEVE_V6 | OUTER_PORT) < 32, "a bit for each");
static __always_inline bool has_outer_header(__u32 outer_type)
{
	return outer_type < 32 && OUTER_HEADERS >> outer_type & 1;
}

/* Whether the node has a source for outer headers of this family. */
static __always_inline bool has_source(const struct node_config *node, bool v6)
{
	const __u64 *words = (const __u64 *)node->source_v6;

	if (!v6)
		return node->source_v4;
	return words[0] | words[1];
}

/* The node's address, or its last word, with the flow's bits. */
static __always_inline __be32 outer_source(__be32 word, __be32 mask,
					   __u32 entropy)
{
	return (word & ~mask) | (bpf_htonl(entropy) & mask);
}

/* Bytes between the outer IP header and the packet, by kind. */
#define SHIMS(SHIM)                                                            \
	SHIM(OUTER_IPIP_V4, 0)                                                 \
	SHIM(OUTER_GUE_V4, 8) SHIM(OUTER_GRE_V4, 4) SHIM(OUTER_GENEVE_V4, 16)
/* Maximum, for bounds and buffers. */
#define SHIM_MAX 16

/*
 * The same in one word, as an array's index would need a check for the
 * verifier. Each kind has five bits; its uppermost is the lowest of the next
 * kind, whose length is even.
 */
#define SHIM_LENGTH_SHIFT(outer_type) (4 * OUTER_KIND(outer_type))
#define SHIFTED(type, length) (length##ULL << SHIM_LENGTH_SHIFT(type)) |
#define SHIM_LENGTHS (SHIMS(SHIFTED) 0ULL)

static __always_inline __u32 shim_length(__u32 outer_type)
{
	return SHIM_LENGTHS >> SHIM_LENGTH_SHIFT(outer_type) & 31;
}

#define ASSERT_SHIM(type, length)                                              \
	_Static_assert((length) <= SHIM_MAX && (length) <= 31 &&               \
			       !((length) & 1),                                \
		       #type);
#define ONE_KIND(type, length) +1
SHIMS(ASSERT_SHIM)
_Static_assert(OUTER_NONE + 2 == 2 * (SHIMS(ONE_KIND)),
	       "a kind, of those below OUTER_NONE and Geneve, has no length "
	       "above");
#undef ASSERT_SHIM
#undef ONE_KIND

/* For types with an outer header. */
static __always_inline __u32 outer_header_length(__u32 outer_type)
{
	return 20 + 20 * is_outer_v6(outer_type) + shim_length(outer_type);
}

static __always_inline __u32 outer_length(__u32 outer_type)
{
	return outer_type == OUTER_NONE ? 0 : outer_header_length(outer_type);
}

/*
 * A second chance: the member that may have the packet's flow, after the
 * headers above, in OXP_ALTERNATIVE_V4 or OXP_ALTERNATIVE_V6 bytes.
 *   GUE     variant 0 instead of 1: a header of four bytes, and private data
 *           as in GitHub's GLB director: type 0, next hop 0, one hop
 *   Geneve  a non-critical option with VNI and address
 *   SRv6    a segment routing header without the first segment (RFC 8986,
 *           section 5.2), which is the destination
 */
#define ALTERNATIVE_GENEVE_CLASS 0xff4f /* experimental: RFC 8926, 8 */
#define ALTERNATIVE_GENEVE_TYPE 1
#define GENEVE_OPTIONS_SHIFT 8        /* length in the first 16 bits, words */
#define ALTERNATIVE_GLB 0x00000001    /* type, next hop, hops */
#define ALTERNATIVE_SEGMENT_ROUTING 4 /* RFC 8754 */

static __always_inline __u32 alternative_length(__u32 outer_type)
{
	return is_outer_v6(outer_type) ? OXP_ALTERNATIVE_V6
				       : OXP_ALTERNATIVE_V4;
}

/* Whether UDP to this port is a tunnel. */
static __always_inline bool is_outer_port(__be16 port)
{
	return port == bpf_htons(OXP_GUE_PORT) ||
	       port == bpf_htons(OXP_GENEVE_PORT);
}

/* In the dynamic range, so that routers and receivers spread flows. */
static __always_inline __u16 outer_source_port(__u32 entropy)
{
	return 0xc000 | (entropy & 0x3fff);
}

static __always_inline void push_udp(__be16 *word, __u16 port, __u32 length,
				     __u32 entropy)
{
	word[0] = bpf_htons(outer_source_port(entropy));
	word[1] = bpf_htons(port);
	word[2] = bpf_htons(length);
	word[3] = 0; /* no checksum: RFC 6935 */
}

/* Writes the UDP header of GUE, the GRE header, or both headers of Geneve; IPIP
 * has none. The packet has `length` bytes. */
static __always_inline void push_shim(void *shim, __u32 outer_type,
				      __u32 length, __u32 entropy, __u32 key,
				      bool v6)
{
	__be16 type = v6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	__be16 *word = shim;

	if (is_kind(outer_type, OUTER_IPIP_V4))
		return;
	if (is_kind(outer_type, OUTER_GUE_V4)) {
		push_udp(word, OXP_GUE_PORT, length + 8, entropy);
	} else if (is_kind(outer_type, OUTER_GRE_V4)) {
		word[0] = 0;
		word[1] = type;
	} else if (is_kind(outer_type, OUTER_GENEVE_V4)) {
		push_udp(word, OXP_GENEVE_PORT, length + 16, entropy);
		word[4] = 0; /* version 0, no options */
		word[5] = type;
		*(__be32 *)(word + 6) = bpf_htonl(key << 8);
	}
}

/* Sets the length of options, in bytes, in the headers of push_shim(). */
static __always_inline void push_options_length(void *shim, __u32 length)
{
	((__be16 *)shim)[4] = bpf_htons(length / 4 << GENEVE_OPTIONS_SHIFT);
}

/* Writes the alternative after the headers of push_shim(), whose lengths
 * already include it; for SRv6 the caller changes the outer header's protocol.
 * An IPv4 address is the last word of `address`; `protocol` is the packet's. */
static __always_inline void push_alternative(void *alternative,
					     __u32 outer_type,
					     const __be32 *address, __u32 key,
					     __u32 protocol)
{
	__u32 words = alternative_length(outer_type) / 4;
	__be32 *word = alternative;

	if (is_kind(outer_type, OUTER_GUE_V4)) {
		word[0] = bpf_htonl((words - 1) << 24 | protocol << 16);
		word[1] = bpf_htonl(ALTERNATIVE_GLB);
	} else if (is_kind(outer_type, OUTER_GENEVE_V4)) {
		word[0] = bpf_htonl(ALTERNATIVE_GENEVE_CLASS << 16 |
				    ALTERNATIVE_GENEVE_TYPE << 8 | (words - 1));
		word[1] = bpf_htonl(key << 8);
	} else {
		word[0] = bpf_htonl(protocol << 24 | (words / 2 - 1) << 16 |
				    ALTERNATIVE_SEGMENT_ROUTING << 8 | 1);
		word[1] = 0;
	}
	if (!is_outer_v6(outer_type)) {
		word[2] = address[3];
		return;
	}
	word[2] = address[0];
	word[3] = address[1];
	word[4] = address[2];
	word[5] = address[3];
}

static __always_inline __u8 outer_protocol(__u32 outer_type, bool v6)
{
	if (is_kind(outer_type, OUTER_IPIP_V4))
		return v6 ? IPPROTO_IPV6 : IPPROTO_IPIP;
	if (is_kind(outer_type, OUTER_GRE_V4))
		return IPPROTO_GRE;
	return IPPROTO_UDP;
}

/* `outer` has 20 bytes; all outer headers together have `more`. */
static __always_inline void push_v4(void *outer, __u64 head, __u32 outer_type,
				    __u32 more, __be32 source,
				    __be32 destination, bool v6)
{
	__u32 length = head_length(head) + more;
	__u32 ttl = OUTER_TTL | (__u32)outer_protocol(outer_type, v6) << 8;
	__u32 *word = outer, first;
	__u64 sum;

	/* keep id and DF: where routers may fragment the packet, the id must
	 * distinguish it from others */
	head = (head & (HEAD_DF | HEAD_ID | HEAD_TOS)) | 0x45 |
	       (__u64)bpf_htons(length) << 16;
	first = head;
	asm volatile("" : "+w"(first)); /* or clang uses two shifts for it */
	sum = first + (head >> 32) + ttl + source + destination;
	word[0] = first;
	word[1] = head >> 32;
	word[2] = ttl | (__u32)(__u16)~fold(sum) << 16;
	word[3] = source;
	word[4] = destination;
}

/* `outer` has 40 bytes, all outer headers together have `more`; `destination`
 * is 8-byte aligned. */
static __always_inline void push_v6(void *outer, __u64 head, __u32 outer_type,
				    __u32 more, __u32 entropy,
				    const struct node_config *node,
				    const __be32 *destination, bool v6)
{
	const __u64 *source = (const __u64 *)node->source_v6;
	const __u64 *to = (const __u64 *)destination;
	__u64 *pair = outer;
	__u32 *word = outer;

	word[0] = bpf_htonl(6U << 28 | (__u32)head_tos(head) << 20 |
			    (entropy & 0xfffff));
	word[1] = bpf_htons(head_length(head) + more - 40) |
		  (__u32)outer_protocol(outer_type, v6) << 16 |
		  (__u32)OUTER_TTL << 24;
	pair[1] = source[0];
	word[4] = node->source_v6[2];
	word[5] = outer_source(node->source_v6[3], node->entropy_v6, entropy);
	pair[3] = to[0];
	pair[4] = to[1];
}

#endif
