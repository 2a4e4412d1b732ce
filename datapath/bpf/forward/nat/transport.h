/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rewrites ports and checksum of a packet with its original IP header. */
#ifndef OXP_NAT_TRANSPORT_H
#define OXP_NAT_TRANSPORT_H

#include "forward/dscp.h"
#include "forward/nat/ends.h"
#include "forward/too_big.h"

/* Maximum for one call of sum_of(). */
#define SUM_PIECE 1240
#define SUM_PIECES 4

/* The sum of up to SUM_PIECES * SUM_PIECE bytes. */
__noinline __u64 nat_sum_of(struct xdp_md *ctx, __u32 offset, __u32 length)
{
	__u32 whole = length & ~3U;
	__u64 sum = 0;

	for (__u32 i = 0; i < SUM_PIECES && SUM_PIECE * i < whole; i++) {
		__u32 left = whole - SUM_PIECE * i;

		sum += sum_of(ctx, offset + SUM_PIECE * i,
			      left < SUM_PIECE ? left : SUM_PIECE);
	}
	for (__u32 i = 0; i < 3 && whole + i < length; i++) {
		const __u8 *byte = at(ctx, offset + whole + i, 1);

		if (byte)
			sum += (__u64)*byte << 8 * i;
	}
	return sum;
}

/* Sets the checksum of UDP without one, for IPv6. Returns the XDP outcome. */
static __always_inline int nat_sum_udp(struct xdp_md *ctx,
				       const struct packet *packet,
				       const struct nat_ends *ends)
{
	__u32 length = packet->end - packet->l4;
	struct udphdr *udp;
	__u64 sum;

	/* all of the datagram must be in the frame's first buffer */
	if (packet->kind != KIND_WHOLE || length > SUM_PIECES * SUM_PIECE ||
	    !at(ctx, packet->end - 1, 1))
		return OXP_DROP_NAT_UNTRANSLATABLE;
	udp = at(ctx, packet->l4, sizeof(*udp));
	if (!udp)
		return OXP_DROP_INTERNAL;
	udp->source = ends->source_port;
	udp->dest = ends->destination_port;
	/* UDP must fill the IP packet, or it is unclear what to sum */
	if (bpf_ntohs(udp->len) != length)
		return OXP_DROP_NAT_UNTRANSLATABLE;
	sum = nat_sum_of(ctx, packet->l4, length) + nat_sum_ends(ends, true) +
	      bpf_htonl(length) + bpf_htonl(IPPROTO_UDP);
	udp = at(ctx, packet->l4, sizeof(*udp));
	if (!udp)
		return OXP_DROP_INTERNAL;
	udp->check = ~fold(sum);
	if (!udp->check)
		udp->check = 0xffff;
	return OXP_FORWARDED;
}

/* For whole packets and first fragments. */
__noinline int nat_rewrite_transport(struct xdp_md *ctx,
				     const struct packet *packet, __u32 number,
				     __u32 what)
{
	bool to_v6 = what & NAT_OUT_V6;
	struct nat_ends ends;
	__be16 *ports, *check;
	__u64 was, is;

	if (!packet || !nat_ends_of(number, what, false, &ends))
		return OXP_DROP_INTERNAL;
	if (packet->protocol == IPPROTO_UDP && to_v6 && !packet->v6) {
		const struct udphdr *udp = at(ctx, packet->l4, sizeof(*udp));

		if (!udp)
			return OXP_DROP_INTERNAL;
		if (!udp->check)
			return nat_sum_udp(ctx, packet, &ends);
	}
	ports = at(ctx, packet->l4, 4);
	if (!ports)
		return OXP_DROP_INTERNAL;
	was = nat_sum(packet->source, packet->v6) +
	      nat_sum(packet->destination, packet->v6) + ports[0] + ports[1];
	is = nat_sum_ends(&ends, to_v6) + ends.source_port +
	     ends.destination_port;
	ports[0] = ends.source_port;
	ports[1] = ends.destination_port;
	check = (__be16 *)covering_checksum(ctx, packet->l4, packet->end,
					    packet->protocol, packet->v6);
	if (check)
		correct_covering((__u16 *)check, packet->protocol, was, is);
	return OXP_FORWARDED;
}

#endif
