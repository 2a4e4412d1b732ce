/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about too big packets: "fragmentation needed" (RFC 1191) and
 * "packet too big" (RFC 8201), as words in the packet's byte order.
 *
 *   IP header | ICMP, 8 bytes | quote
 */
#ifndef OXP_ICMP_TOO_BIG_H
#define OXP_ICMP_TOO_BIG_H

#include "checksum.h"
#include "protocols.h"

#define QUOTE_V4 520  /* 548 bytes in total: every host accepts 576 */
#define QUOTE_V6 1232 /* 1280 bytes in total, the minimum MTU of IPv6 */
#define LIMIT_V4 576
#define LIMIT_V6 1280
#define ANSWER_TOS 0xc0 /* CS6, as in the kernel */
#define ANSWER_TTL 64
#define TOO_BIG_V4_HEADERS (sizeof(struct iphdr) + ICMP_HEADER)
#define TOO_BIG_V6_HEADERS (sizeof(struct ipv6hdr) + ICMP_HEADER)

/* All but the checksum of ICMP, the upper half of word[5], which is 0. */
static __always_inline void
write_too_big_v4(__u32 *word, __u32 quote, __be32 from, __be32 to, __u32 limit)
{
	word[0] = 0x45 | ANSWER_TOS << 8 |
		  bpf_htons(TOO_BIG_V4_HEADERS + quote) << 16;
	word[1] = 0;
	word[2] = ANSWER_TTL | IPPROTO_ICMP << 8;
	word[3] = from;
	word[4] = to;
	word[2] |= (__u32)(__u16)~fold((__u64)word[0] + word[2] + word[3] +
				       word[4])
		   << 16;
	word[5] = 3 | 4 << 8; /* fragmentation needed */
	word[6] = bpf_htonl(limit);
}

/* The same; its checksum is in word[10]. */
static __always_inline void write_too_big_v6(__u32 *word, __u32 quote,
					     const __be32 *from,
					     const __be32 *to, __u32 limit)
{
	word[0] = bpf_htonl(6U << 28 | ANSWER_TOS << 20);
	word[1] = bpf_htons(ICMP_HEADER + quote) | IPPROTO_ICMPV6 << 16 |
		  ANSWER_TTL << 24;
	for (int i = 0; i < 4; i++) {
		word[2 + i] = from[i];
		word[6 + i] = to[i];
	}
	word[10] = 2; /* packet too big */
	word[11] = bpf_htonl(limit);
}

/* Sum of the pseudo-header that ICMPv6's checksum covers. */
static __always_inline __u64 pseudo_sum_v6(const __u32 *word, __u32 quote)
{
	__u64 sum = (__u64)bpf_htonl(ICMP_HEADER + quote) +
		    bpf_htonl(IPPROTO_ICMPV6);

	for (int i = 2; i < 10; i++)
		sum += word[i];
	return sum;
}

#endif
