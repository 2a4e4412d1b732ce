/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Replies with a reset to packets of refused or unknown connections, as a host
 * does for a closed port (RFC 9293, section 3.10.7.1), or drops them.
 *
 *   before   | link | client -> VIP | SYN, sequence number n, m bytes
 *   after    | link | VIP -> client | RST and ACK of n + m + 1
 *
 *   before   | link | client -> VIP | ACK of n
 *   after    | link | VIP -> client | RST, sequence number n
 */
#ifndef OXP_RESET_H
#define OXP_RESET_H

#include "checksum.h"
#include "forward/budget.h"
#include "forward/drop.h"
#include "forward/parse.h"

#define RESET_TTL 64
#define TCP_RST_ALONE 0x04
#define TCP_RST_ACK 0x14

/* Fields of a reset, in network byte order. */
struct reset {
	__be32 ports; /* of the packet that it answers */
	__be32 sequence;
	__be32 acked;
	__u32 flags;
};

/* `tcp` has 20 bytes; `pseudo` is the sum of the pseudo-header. */
static __always_inline void write_reset(__u32 *tcp, const struct reset *reset,
					__u64 pseudo)
{
	tcp[0] = reset->ports >> 16 | reset->ports << 16;
	tcp[1] = reset->sequence;
	tcp[2] = reset->acked;
	tcp[3] = 0x50 | reset->flags << 8;
	tcp[4] = (__u16)~fold(pseudo + tcp[0] + tcp[1] + tcp[2] + tcp[3]);
}

static __always_inline void write_reset_v4(__u32 *ip, const struct reset *reset)
{
	__u32 client = ip[3];

	ip[0] = 0x45 | bpf_htons(40) << 16;
	ip[1] = 0x40 << 16; /* DF */
	ip[2] = RESET_TTL | IPPROTO_TCP << 8;
	ip[3] = ip[4];
	ip[4] = client;
	ip[2] |= (__u32)(__u16)~fold((__u64)ip[0] + ip[1] + ip[2] + ip[3] +
				     ip[4])
		 << 16;
	write_reset(ip + 5, reset,
		    (__u64)ip[3] + ip[4] + bpf_htonl(IPPROTO_TCP << 16 | 20));
}

static __always_inline void write_reset_v6(__u32 *ip, const struct reset *reset)
{
	__u64 sum = (__u64)bpf_htonl(20) + bpf_htonl(IPPROTO_TCP);

	ip[0] = bpf_htonl(6U << 28);
	ip[1] = bpf_htons(20) | IPPROTO_TCP << 16 | RESET_TTL << 24;
	for (int i = 0; i < 4; i++) {
		__u32 client = ip[2 + i];

		ip[2 + i] = ip[6 + i];
		ip[6 + i] = client;
		sum += (__u64)ip[2 + i] + client;
	}
	write_reset(ip + 10, reset, sum);
}

/* `length` is that of the header and its data. */
static __always_inline void reset_of(const struct tcphdr *tcp, __u32 length,
				     struct reset *reset)
{
	reset->ports = *(const __be32 *)tcp;
	reset->sequence = 0;
	reset->acked = 0;
	reset->flags = TCP_RST_ALONE;
	if (tcp->ack) {
		reset->sequence = tcp->ack_seq;
		return;
	}
	reset->acked =
		bpf_htonl(bpf_ntohl(tcp->seq) + 1 + length - 4 * tcp->doff);
	reset->flags = TCP_RST_ACK;
}

/* Whether the packet with the TCP header at l4 is whole and, for IPv6, has no
 * extension headers: what a fragment's packet acknowledges is unknown. */
static __always_inline bool is_answerable(struct xdp_md *ctx, __u32 l3,
					  __u32 l4, __u32 v6)
{
	const struct iphdr *ip;

	if (v6)
		return l4 == l3 + sizeof(struct ipv6hdr);
	ip = at(ctx, l3, sizeof(*ip));
	return ip && !(ip->frag_off & bpf_htons(IP_MORE_FRAGMENTS));
}

/* Turns the packet at l3, with its TCP header at l4, into the reset; it must be
 * a SYN or acknowledge something. A separate function, as Linux 6.1 rejects it
 * when inlined into a caller that has l3, l4 and v6 in a map. */
COLD int answer_reset(struct xdp_md *ctx, __u32 l3, __u32 l4, __u32 v6)
{
	const struct tcphdr *tcp = at(ctx, l4, sizeof(*tcp));
	__u32 *ip = at(ctx, l3, v6 ? 60 : 40);
	struct reset reset;
	__u32 length;

	if (!tcp || !ip)
		return false;
	length = v6 ? bpf_ntohs(((struct ipv6hdr *)ip)->payload_len)
		    : bpf_ntohs(((struct iphdr *)ip)->tot_len) - (l4 - l3);
	reset_of(tcp, length, &reset);
	if (v6)
		write_reset_v6(ip, &reset);
	else
		write_reset_v4(ip, &reset);
	return true;
}

/* The connection exceeds the limit of the service whose block is at `line`. */
COLD int refuse_connection(struct xdp_md *ctx, __u32 l3, __u32 l4, __u32 v6,
			   __u32 line)
{
	__u32 length = frame_length(ctx);
	struct block_view view;
	struct ethhdr *ethernet;

	if (!find_block(line, &view) ||
	    !(view.block->flags & OXP_SERVICE_RESET) ||
	    !is_answerable(ctx, l3, l4, v6) ||
	    !may_answer(ANSWER_RESET, answered_at(ctx, l3, v6)) ||
	    !answer_reset(ctx, l3, l4, v6))
		return drop_at(ctx, OXP_DROP_CONNECTION_LIMIT, line);
	if (bpf_xdp_adjust_tail(ctx, (int)(l3 + (v6 ? 60 : 40) - length)))
		return drop_at(ctx, OXP_DROP_INTERNAL, line);
	ethernet = at(ctx, 0, sizeof(*ethernet));
	if (ethernet)
		swap_macs(ethernet);
	count_bytes(OXP_SENT_RESET, length);
	return XDP_TX;
}

#endif
