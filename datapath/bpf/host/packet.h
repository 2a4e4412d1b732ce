/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fields of a client's or a member's IP packet that flows need. */
#ifndef OXP_HOST_PACKET_H
#define OXP_HOST_PACKET_H

#include <linux/pkt_cls.h>

#include "host/maps.h"
#include "transport.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

#define SCTP_HEADER 12
#define SCTP_INIT 1 /* type of the first chunk */

enum echo {
	ECHO_REQUEST = 1,
	ECHO_REPLY
};

struct host_packet {
	struct transport transport;
	__u32 ip;     /* offset of its IP header */
	__u32 length; /* of the IP packet, from its own header */
	__be16 source_port, destination_port;
	__be16 check;   /* the transport's; usual packets only */
	__u8 tcp_flags; /* of TCP; SYN if SCTP opens an association */
	__u8 error;     /* is an ICMP error */
	__u8 echo;      /* enum echo; replaces ports, see read_echo() */
	__u8 has_ports;
};

/* For IPv4. */
static __always_inline __be32 last_word(const struct ip_address *address)
{
	return *(const __be32 *)(address->bytes + 12);
}

/* Minimum length of the transport's header. */
static __always_inline __u32 transport_header(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return sizeof(struct tcphdr);
	case IPPROTO_UDP:
		return sizeof(struct udphdr);
	case IPPROTO_SCTP:
		return SCTP_HEADER;
	default:
		return 0;
	}
}

/*
 * The usual packet: no options, no extension headers, no fragment, TCP, UDP or
 * SCTP, all headers in the linear part. Returns whether it is one; leaves
 * others undefined. `packet` starts as zeroes.
 */
static __always_inline bool read_usual(struct __sk_buff *skb, __u32 ip,
				       struct host_packet *packet)
{
	void *end = (void *)(long)skb->data_end;
	void *at = (void *)(long)skb->data + ip;
	struct transport *transport = &packet->transport;
	struct iphdr *v4 = at;
	struct ipv6hdr *v6 = at;
	struct tcphdr *tcp;
	__u32 header;

	if ((void *)(v4 + 1) > end)
		return false;
	if (*(__u8 *)at == 0x45) {
		if (v4->frag_off &
		    bpf_htons(IP_FRAGMENT_OFFSET | IP_MORE_FRAGMENTS))
			return false;
		transport->version = 4;
		transport->protocol = v4->protocol;
		transport->source = mapped(v4->saddr);
		transport->destination = mapped(v4->daddr);
		packet->length = bpf_ntohs(v4->tot_len);
		header = sizeof(*v4);
	} else {
		if ((void *)(v6 + 1) > end || v6->version != 6)
			return false;
		transport->version = 6;
		transport->protocol = v6->nexthdr;
		__builtin_memcpy(&transport->source, &v6->saddr, 16);
		__builtin_memcpy(&transport->destination, &v6->daddr, 16);
		packet->length = sizeof(*v6) + bpf_ntohs(v6->payload_len);
		header = sizeof(*v6);
	}
	tcp = at + header;
	/* packets shorter than a TCP header use the other function */
	if (!transport_header(transport->protocol) || (void *)(tcp + 1) > end ||
	    packet->length < header + sizeof(*tcp) ||
	    packet->length > skb->len - ip)
		return false;
	packet->ip = ip;
	transport->offset = ip + header;
	packet->source_port = tcp->source;
	packet->destination_port = tcp->dest;
	if (transport->protocol == IPPROTO_TCP) {
		packet->tcp_flags = ((__u8 *)tcp)[13];
		packet->check = tcp->check;
	} else {
		packet->check = ((struct udphdr *)tcp)->check;
		if (transport->protocol == IPPROTO_SCTP &&
		    ((__u8 *)tcp)[SCTP_HEADER] == SCTP_INIT)
			packet->tcp_flags = TCP_SYN;
	}
	packet->has_ports = 1;
	return true;
}

static __always_inline int read_length(struct __sk_buff *skb,
				       struct host_packet *packet)
{
	__u32 at = packet->ip + (packet->transport.version == 4 ? 2 : 4);
	__be16 length;

	if (bpf_skb_load_bytes(skb, at, &length, sizeof(length)))
		return -1;
	packet->length = bpf_ntohs(length);
	if (packet->transport.version == 6)
		packet->length += sizeof(struct ipv6hdr);
	return 0;
}

/* A request has the identifier as its source port and the sequence number as
 * its destination port, a reply the other way round. */
static __always_inline void read_echo(struct host_packet *packet,
				      const __be16 *icmp)
{
	const struct transport *transport = &packet->transport;
	__u8 type = *(const __u8 *)icmp;
	__u8 request = 8, reply = 0;

	if (transport->fragment)
		return;
	if (transport->version == 6) {
		request = 128;
		reply = 129;
	}
	if (transport->protocol !=
	    (transport->version == 6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
		return;
	if (type == request) {
		packet->echo = ECHO_REQUEST;
		packet->source_port = icmp[2];
		packet->destination_port = icmp[3];
	} else if (type == reply) {
		packet->echo = ECHO_REPLY;
		packet->source_port = icmp[3];
		packet->destination_port = icmp[2];
	}
}

static __always_inline int read_first_chunk(struct __sk_buff *skb,
					    struct host_packet *packet,
					    __u32 header)
{
	__u8 type;

	if (packet->length <= header)
		return 0;
	if (bpf_skb_load_bytes(skb, packet->ip + header, &type, 1))
		return -1;
	if (type == SCTP_INIT)
		packet->tcp_flags = TCP_SYN;
	return 0;
}

/* For all packets; negative: truncated headers. `packet` starts as zeroes. */
__noinline int read_any(struct __sk_buff *skb, __u32 ip,
			struct host_packet *packet)
{
	struct transport *transport;
	__u32 header, l4;
	__be16 icmp[ICMP_HEADER / 2];

	if (!packet)
		return -1;
	transport = &packet->transport;
	packet->ip = ip;
	if (find_transport(skb, true, ip, transport) ||
	    read_length(skb, packet) || packet->length > skb->len - ip)
		return -1;
	l4 = transport->offset - ip;
	if (l4 > packet->length)
		return -1;
	if (transport->later)
		return 0;
	header = transport_header(transport->protocol);
	if (header) {
		__be16 words[7];

		if (packet->length - l4 < header ||
		    bpf_skb_load_bytes(skb, transport->offset, words, 4))
			return -1;
		packet->source_port = words[0];
		packet->destination_port = words[1];
		packet->has_ports = 1;
		if (transport->protocol == IPPROTO_SCTP)
			return read_first_chunk(skb, packet, l4 + header);
		if (transport->protocol != IPPROTO_TCP)
			return 0;
		return bpf_skb_load_bytes(skb, transport->offset + 13,
					  &packet->tcp_flags, 1);
	}
	if (packet->length - l4 >= ICMP_HEADER &&
	    !bpf_skb_load_bytes(skb, transport->offset, icmp, sizeof(icmp))) {
		packet->error = is_error(transport, *(__u8 *)icmp);
		read_echo(packet, icmp);
	}
	return 0;
}

/* The packet that an ICMP error quotes, up to its ports. */
static __always_inline int parse_quote(struct __sk_buff *skb,
				       const struct host_packet *error,
				       struct host_packet *quote)
{
	struct transport *transport;
	__be16 words[2];

	transport = &quote->transport;
	quote->ip = error->transport.offset + ICMP_HEADER;
	if (find_transport(skb, true, quote->ip, transport) ||
	    transport->version != error->transport.version ||
	    transport->later || !transport_header(transport->protocol) ||
	    bpf_skb_load_bytes(skb, transport->offset, words, sizeof(words)))
		return -1;
	quote->source_port = words[0];
	quote->destination_port = words[1];
	return 0;
}

__noinline int read_quote(struct __sk_buff *skb,
			  const struct host_packet *error,
			  struct host_packet *quote)
{
	return error && quote ? parse_quote(skb, error, quote) : -1;
}

/* Whether it neither begins nor ends a flow. */
static __always_inline bool is_amid_flow(const struct host_packet *packet)
{
	return !(packet->tcp_flags & (TCP_FIN | TCP_SYN | TCP_RST));
}

static __always_inline bool opens(const struct host_packet *packet)
{
	return (packet->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
}

static __always_inline bool closes(const struct host_packet *packet)
{
	return packet->tcp_flags & (TCP_FIN | TCP_RST);
}

#endif
