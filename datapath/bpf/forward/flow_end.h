/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a client's packet ends its flow. */
#ifndef OXP_FLOW_END_H
#define OXP_FLOW_END_H

#include "forward/parse.h"

#define SCTP_ABORT 6
#define SCTP_SHUTDOWN 7
#define SCTP_SHUTDOWN_ACK 8
#define SCTP_SHUTDOWN_COMPLETE 14
#define TCP_FIN_OR_RST 5

/* `l4` is the transport header's offset; not for later fragments and ICMP
 * errors. */
static __always_inline bool ends_flow(struct xdp_md *ctx, __u32 l4,
				      __u8 protocol)
{
	const __u8 *header = at(ctx, l4, 14);
	__u8 type;

	if (protocol == IPPROTO_UDP || !header)
		return false;
	if (protocol == IPPROTO_TCP)
		return header[13] & TCP_FIN_OR_RST;
	type = header[12];
	return type == SCTP_ABORT || type == SCTP_SHUTDOWN ||
	       type == SCTP_SHUTDOWN_ACK || type == SCTP_SHUTDOWN_COMPLETE;
}

static __always_inline bool packet_ends_flow(struct xdp_md *ctx,
					     const struct packet *packet)
{
	return packet->kind <= KIND_FIRST && packet->l4 + 14 <= packet->end &&
	       ends_flow(ctx, packet->l4, packet->protocol);
}

#endif
