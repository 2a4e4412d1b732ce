/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet that names an alternative and whose flow is not here goes on to the
 * alternative, without naming one, so that it is handed on once only.
 *
 *   LB node -> [tunnel, alternative] -> this member, which has no such socket
 *                   this member -> [tunnel] -> alternative
 *
 * A member does not relay for others: only packets from LB nodes for its VIPs
 * are handed on, and only to the networks of its services' other members, as
 * given to setup. Packets that members in these networks hand on are accepted.
 */
#ifndef OXP_MEMBER_SECOND_CHANCE_H
#define OXP_MEMBER_SECOND_CHANCE_H

#include "hand_on.h"
#include "member/ports.h"
#include "member/tunnel.h"

#define TCP_SYN 2
#define TCP_RST_FIN 5
#define TCP_ACK 16
#define TCP_FLAGS 13 /* offset */

/* A TCP connection, or the one that an ICMP error quotes; client first. */
struct connection {
	struct ip_address client, vip;
	__be16 client_port, vip_port;
	__u32 ip, tcp; /* offsets of the headers; 0: quoted */
	__u8 version;
};

/* Whether the packet belongs to a connection that it does not open. */
static __always_inline bool find_connection(void *ctx, const bool skb, __u32 ip,
					    struct connection *out)
{
	struct transport packet = {}, quoted = {};
	__be16 ports[2];
	__u8 octet;

	if (find_transport(ctx, skb, ip, &packet) || packet.fragment)
		return false;
	out->version = packet.version;
	if (packet.protocol == IPPROTO_TCP) {
		if (frame_load(ctx, skb, packet.offset, ports, sizeof(ports)) ||
		    frame_load(ctx, skb, packet.offset + TCP_FLAGS, &octet, 1))
			return false;
		if ((octet & (TCP_SYN | TCP_RST_FIN | TCP_ACK)) == TCP_SYN)
			return false;
		out->client = packet.source;
		out->vip = packet.destination;
		out->client_port = ports[0];
		out->vip_port = ports[1];
		out->ip = ip;
		out->tcp = packet.offset;
		return true;
	}
	if (frame_load(ctx, skb, packet.offset, &octet, 1) ||
	    !is_error(&packet, octet) ||
	    find_transport(ctx, skb, packet.offset + ICMP_HEADER, &quoted) ||
	    quoted.version != packet.version || quoted.later ||
	    quoted.protocol != IPPROTO_TCP ||
	    frame_load(ctx, skb, quoted.offset, ports, sizeof(ports)))
		return false;
	out->client = quoted.destination;
	out->vip = quoted.source;
	out->client_port = ports[1];
	out->vip_port = ports[0];
	out->ip = 0;
	out->tcp = 0;
	return true;
}

/* A listener has no state of connections that it answered with SYN cookies. */
static __always_inline bool is_cookie(struct __sk_buff *skb,
				      struct bpf_sock *socket,
				      const struct connection *connection,
				      struct tcphdr *tcp)
{
	struct ipv6hdr v6;
	struct iphdr v4;

	if (!tcp->ack || tcp->syn || tcp->rst || tcp->fin)
		return false;
	tcp->dest = connection->vip_port;
	if (connection->version == 4)
		return !bpf_skb_load_bytes(skb, connection->ip, &v4,
					   sizeof(v4)) &&
		       !bpf_tcp_check_syncookie(socket, &v4, sizeof(v4), tcp,
						sizeof(*tcp));
	return !bpf_skb_load_bytes(skb, connection->ip, &v6, sizeof(v6)) &&
	       !bpf_tcp_check_syncookie(socket, &v6, sizeof(v6), tcp,
					sizeof(*tcp));
}

/*
 * Sockets in NEW_SYN_RECV or TIME_WAIT: a connection that is being opened, or
 * one that was closed and of which packets may still come. The peer can only
 * acknowledge all that the socket sent, or send a RST with the sequence number
 * that the socket expects. A packet that acknowledges less is an old duplicate,
 * and the peer ignores another member's reset for it (RFC 9293, 3.10.7.4).
 */
static __always_inline __u32 word_of(const void *socket, __u32 offset)
{
	return *(const __u32 *)(socket + offset);
}

static __always_inline bool is_next(const struct tcphdr *tcp, __u32 sent,
				    __u32 received)
{
	return tcp->ack ? bpf_ntohl(tcp->ack_seq) == sent
			: bpf_ntohl(tcp->seq) == received;
}

/* A client that reuses a port within a minute may have a connection to another
 * member, and must not get this socket's reply. If the kernel does not tell
 * what the socket has sent, all packets are handed on: this end has nothing
 * more to send, and a client whose last FIN is reset has closed, too. */
static __always_inline bool is_of_closed(struct bpf_sock *socket,
					 const struct tcphdr *tcp)
{
	struct tcp_timewait_sock *closed;

	if (!config.closed.sent)
		return false;
	closed = bpf_skc_to_tcp_timewait_sock(socket);
	return closed && is_next(tcp, word_of(closed, config.closed.sent),
				 word_of(closed, config.closed.received));
}

/* The client may have begun here and continued with another member. */
static __always_inline bool is_of_opening(struct bpf_sock *socket,
					  const struct tcphdr *tcp)
{
	struct tcp_request_sock *opening;

	if (!config.opening.sent)
		return true;
	opening = bpf_skc_to_tcp_request_sock(socket);
	return opening &&
	       is_next(tcp, word_of(opening, config.opening.sent) + 1,
		       word_of(opening, config.opening.received));
}

/*
 * Whether the socket ever sent what the packet acknowledges. A member that was
 * cut off keeps sockets of connections that their clients have given up, and a
 * client may reuse the port for a connection to another member that has got the
 * slot meanwhile.
 *
 * A valid acknowledgment is for data of this connection, and no older than the
 * largest window (RFC 7323, 2.3). The socket is not locked: it may have sent,
 * or got acknowledged, up to UNLOCKED more than is read.
 */
#define WINDOW_MAX (1U << 30)
#define UNLOCKED (1U << 20)
static __always_inline bool is_acknowledgment_for(struct bpf_sock *socket,
						  const struct tcphdr *tcp)
{
	struct bpf_tcp_sock *details = bpf_tcp_sock(socket);
	__u32 oldest, sent, acknowledged;
	__u64 before;

	if (!details || !tcp->ack)
		return true;
	before = details->bytes_acked;
	if (before > WINDOW_MAX)
		before = WINDOW_MAX;
	oldest = details->snd_una - (__u32)before - UNLOCKED;
	sent = details->snd_nxt + UNLOCKED - oldest;
	acknowledged = bpf_ntohl(tcp->ack_seq) - oldest;
	return acknowledged <= sent;
}

static __always_inline struct bpf_sock *
find_socket(struct __sk_buff *skb, const struct connection *connection)
{
	struct bpf_sock_tuple tuple = {};

	if (connection->version == 4) {
		__builtin_memcpy(&tuple.ipv4.saddr,
				 connection->client.bytes + 12, 4);
		__builtin_memcpy(&tuple.ipv4.daddr, connection->vip.bytes + 12,
				 4);
		tuple.ipv4.sport = connection->client_port;
		tuple.ipv4.dport = connection->vip_port;
		return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4),
					  BPF_F_CURRENT_NETNS, 0);
	}
	__builtin_memcpy(tuple.ipv6.saddr, &connection->client, 16);
	__builtin_memcpy(tuple.ipv6.daddr, &connection->vip, 16);
	tuple.ipv6.sport = connection->client_port;
	tuple.ipv6.dport = connection->vip_port;
	return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv6),
				  BPF_F_CURRENT_NETNS, 0);
}

static __always_inline bool is_of(struct __sk_buff *skb,
				  struct bpf_sock *socket,
				  const struct connection *connection,
				  struct tcphdr *tcp)
{
	__u32 state = socket->state;

	/* the kernel ignores errors about connections it has closed */
	if (!connection->tcp)
		return state != BPF_TCP_LISTEN && state != BPF_TCP_TIME_WAIT;
	switch (state) {
	case BPF_TCP_LISTEN:
		return is_cookie(skb, socket, connection, tcp);
	case BPF_TCP_TIME_WAIT:
		return is_of_closed(socket, tcp);
	case BPF_TCP_NEW_SYN_RECV:
		return is_of_opening(socket, tcp);
	default:
		return is_acknowledgment_for(socket, tcp);
	}
}

static __always_inline bool is_here(struct __sk_buff *skb,
				    struct connection *connection)
{
	struct bpf_sock *socket;
	struct tcphdr tcp;
	__be16 local;
	bool here;

	if (connection->tcp &&
	    bpf_skb_load_bytes(skb, connection->tcp, &tcp, sizeof(tcp)))
		return true;
	local = config.has_ports ? other_port(IN, &connection->vip, IPPROTO_TCP,
					      connection->vip_port)
				 : 0;
	if (local)
		connection->vip_port = local;
	socket = find_socket(skb, connection);
	if (!socket)
		return false;
	here = is_of(skb, socket, connection, &tcp);
	bpf_sk_release(socket);
	return here;
}

/* Whether the packet may belong to another member. */
static __always_inline bool names_another(void *ctx, const bool skb,
					  const struct tunnel *tunnel,
					  const struct named *named,
					  struct connection *out)
{
	return config.hands_on && named->length &&
	       find_connection(ctx, skb, tunnel->link + tunnel->length, out);
}

static __always_inline bool may_hand_on(const struct named *named)
{
	return network_is(&named->alternative, MEMBER_NETWORK_MEMBER) &&
	       !address_is(&named->alternative, MEMBER_ADDRESS_OWN);
}

#endif
