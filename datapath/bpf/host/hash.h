/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The name of a flow: SipHash-1-3 (Aumasson and Bernstein, with one round a
 * word and three at the end) under a secret of the hypervisor. Clients choose
 * addresses and ports, so that with a weaker hash they could find two flows
 * with one name, and enter by the second what the first was let in to.
 *
 * The message: fixed address, client's address (of both families 4 or 16
 * bytes each), place of the host's port (2 bytes, little endian), protocol,
 * member's port and client's port as they are in packets. With its length, in
 * the last byte, it is two words of IPv4, and five of IPv6.
 */
#ifndef OXP_HOST_HASH_H
#define OXP_HOST_HASH_H

#include "host/maps.h"

struct flow_name {
	struct ip_address client, fixed;
	__u32 host_port;
	__be16 client_port, port;
	__u8 protocol;
	__u8 v6;
};

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

/* What the message's last word has besides the length. */
static __always_inline __u64 end_of_name(__u32 host_port, __u8 protocol,
					 __be16 port, __be16 client_port)
{
	return (host_port & 0xffff) | (__u64)protocol << 16 |
	       (__u64)port << 24 | (__u64)client_port << 40;
}

/* Never 0. */
static __always_inline __u64 tag_from(__u64 hash)
{
	return hash ? hash : 1;
}

__noinline __u64 tag_of(const struct flow_name *name)
{
	const struct host_settings *node = settings_at(0);

	if (!name || !node)
		return 1;
	return tag_from(siphash(&name->fixed, &name->client,
				end_of_name(name->host_port, name->protocol,
					    name->port, name->client_port),
				name->v6, node));
}

#endif
