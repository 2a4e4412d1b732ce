/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The name of a flow: a keyed hash that programs and the library compute. For
 * its inputs see bpf/host/hash.h. */
#ifndef OXP_HOST_FLOW_NAME_H
#define OXP_HOST_FLOW_NAME_H

#include <stdbool.h>

#include "host.h"

#define ROTATED(word, bits) ((word) << (bits) | (word) >> (64 - (bits)))

#define SIP_ROUND                                                              \
	do {                                                                   \
		v0 += v1;                                                      \
		v2 += v3;                                                      \
		v1 = ROTATED(v1, 13) ^ v0;                                     \
		v3 = ROTATED(v3, 16) ^ v2;                                     \
		v0 = ROTATED(v0, 32);                                          \
		v2 += v1;                                                      \
		v0 += v3;                                                      \
		v1 = ROTATED(v1, 17) ^ v2;                                     \
		v3 = ROTATED(v3, 21) ^ v0;                                     \
		v2 = ROTATED(v2, 32);                                          \
	} while (0)

#define SIP_WORD(word)                                                         \
	do {                                                                   \
		__u64 message = (word);                                        \
                                                                               \
		v3 ^= message;                                                 \
		SIP_ROUND;                                                     \
		v0 ^= message;                                                 \
	} while (0)

static __always_inline __u64 siphash(const struct ip_address *fixed_at,
				     const struct ip_address *client_at,
				     __u64 last, bool v6,
				     const struct host_settings *node)
{
	__u64 v0 = 0x736f6d6570736575ULL ^ node->seed[0];
	__u64 v1 = 0x646f72616e646f6dULL ^ node->seed[1];
	__u64 v2 = 0x6c7967656e657261ULL ^ node->seed[0];
	__u64 v3 = 0x7465646279746573ULL ^ node->seed[1];
	const __u64 *client = (const __u64 *)client_at;
	const __u64 *fixed = (const __u64 *)fixed_at;

	if (v6) {
		SIP_WORD(fixed[0]);
		SIP_WORD(fixed[1]);
		SIP_WORD(client[0]);
		SIP_WORD(client[1]);
		last |= 39ULL << 56;
	} else {
		SIP_WORD(fixed[1] >> 32 | (client[1] >> 32) << 32);
		last |= 15ULL << 56;
	}
	SIP_WORD(last);
	v2 ^= 0xff;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

/* The message's last word, except for the length. */
static __always_inline __u64 end_of_name(__u32 host_port, __u8 protocol,
					 __be16 port, __be16 client_port)
{
	return (host_port & 0xffff) | (__u64)protocol << 16 |
	       (__u64)port << 24 | (__u64)client_port << 40;
}

/* HOST_TAG_BITS of the hash, never 0. */
static __always_inline __u64 tag_from(__u64 hash)
{
	hash >>= 64 - HOST_TAG_BITS;
	return hash ? hash : 1;
}

#endif
