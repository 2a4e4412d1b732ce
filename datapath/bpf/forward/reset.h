/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection that is refused: its SYN is answered by a reset, as a host does
 * where nobody listens (RFC 9293, section 3.10.7.1), or dropped.
 *
 *   before   | link | client -> VIP | SYN, sequence number n, m bytes
 *   after    | link | VIP -> client | RST and ACK of n + m + 1
 */
#ifndef OXP_RESET_H
#define OXP_RESET_H

#include "checksum.h"
#include "forward/budget.h"
#include "forward/drop.h"
#include "forward/parse.h"

#define RESET_TTL 64
#define TCP_RST_ACK 0x14

/* `tcp` has 20 bytes; `pseudo` is the sum of the pseudo header. */
static __always_inline void write_reset(__u32 *tcp, __u32 ports, __u32 acked,
					__u64 pseudo)
{
	tcp[0] = ports >> 16 | ports << 16;
	tcp[1] = 0;
	tcp[2] = bpf_htonl(acked);
	tcp[3] = 0x50 | TCP_RST_ACK << 8;
	tcp[4] = (__u16)~fold(pseudo + tcp[0] + tcp[2] + tcp[3]);
}

static __always_inline void write_reset_v4(__u32 *ip, __u32 ports, __u32 acked)
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
	write_reset(ip + 5, ports, acked,
		    (__u64)ip[3] + ip[4] + bpf_htonl(IPPROTO_TCP << 16 | 20));
}

static __always_inline void write_reset_v6(__u32 *ip, __u32 ports, __u32 acked)
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
	write_reset(ip + 10, ports, acked, sum);
}

/* The packet at l3, with its TCP header at l4, becomes the answer. */
static __always_inline bool answer_reset(struct xdp_md *ctx, __u32 l3, __u32 l4,
					 bool v6)
{
	const struct tcphdr *tcp = at(ctx, l4, sizeof(*tcp));
	__u32 *ip = at(ctx, l3, v6 ? 60 : 40);
	__u32 ports, acked, length;

	if (!tcp || !ip)
		return false;
	/* of fragments it is not known how much they acknowledge */
	if (v6 ? l4 != l3 + 40
	       : ((struct iphdr *)ip)->frag_off & bpf_htons(IP_MORE_FRAGMENTS))
		return false;
	length = v6 ? bpf_ntohs(((struct ipv6hdr *)ip)->payload_len)
		    : bpf_ntohs(((struct iphdr *)ip)->tot_len) - (l4 - l3);
	ports = *(const __u32 *)tcp;
	acked = bpf_ntohl(tcp->seq) + 1 + length - 4 * tcp->doff;
	if (v6)
		write_reset_v6(ip, ports, acked);
	else
		write_reset_v4(ip, ports, acked);
	return true;
}

/* Beyond the limit of the service whose block is at `line`. */
COLD int refuse_connection(struct xdp_md *ctx, __u32 l3, __u32 l4, __u32 v6,
			   __u32 line)
{
	const struct node_config *node = find_config();
	__u32 length = frame_length(ctx);
	struct block_view view;
	struct ethhdr *ethernet;

	if (!node || !find_block(line, &view) ||
	    !(view.block->flags & OXP_SERVICE_RESET) || !may_answer(node) ||
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
