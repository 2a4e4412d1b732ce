/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * QUIC's invariants (RFC 8999), and connection IDs that servers generate for
 * load balancers (draft-ietf-quic-load-balancers, plaintext): the first byte's
 * top three bits select a configuration; the server ID follows.
 */
#ifndef OXP_QUIC_H
#define OXP_QUIC_H

#include "forward/parse.h"
#include "forward/record.h"

#define QUIC_LONG 0x80
#define QUIC_FIXED 0x40
#define QUIC_VERSION_2 0x6b3343cf
/* Configuration and server ID, the part of a connection ID that is needed. */
#define QUIC_ROUTED (1 + OXP_QUIC_SERVER_ID_LENGTH)

static __always_inline bool quic_opens(struct xdp_md *ctx,
				       const struct packet *packet)
{
	const __u8 *quic = in_packet(ctx, packet, packet->l4 + 8, 5);
	__be32 version;

	if (!quic || !(quic[0] & QUIC_LONG))
		return false;
	version = *(const __be32 *)(quic + 1);
	if (!version)
		return false;
	return (quic[0] >> 4 & 3) == (version == bpf_htonl(QUIC_VERSION_2));
}

/* The member with the server ID in the packet, or -1. */
static __always_inline int
quic_member(struct xdp_md *ctx, const struct packet *packet, __u32 service)
{
	struct quic_key key = {.service = service};
	__u32 offset = packet->l4 + 8;
	const __u8 *byte = in_packet(ctx, packet, offset, 6);
	__u32 *member;

	if (!byte)
		return -1;
	if (byte[0] & QUIC_LONG) {
		if (byte[5] < QUIC_ROUTED)
			return -1;
		offset += 6;
	} else {
		if (!(byte[0] & QUIC_FIXED))
			return -1;
		offset += 1;
	}
	byte = in_packet(ctx, packet, offset, QUIC_ROUTED);
	if (!byte || byte[0] >> 5 != OXP_QUIC_CONFIG)
		return -1;
	key.server_id = *(const __be32 *)(byte + 1);
	RECORD(QUIC_SERVER, bpf_ntohl(key.server_id));
	member = bpf_map_lookup_elem(&quic_servers, &key);
	return member ? (int)*member : -1;
}

#endif
