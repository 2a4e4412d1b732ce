/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes the first FRAME_HEAD bytes of a frame: all headers and the signature.
 * The rest of the page has been zero since its allocation, so checksums can
 * ignore it.
 */
#ifndef OXT_FRAME_H
#define OXT_FRAME_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "checksum.h"
#include "format.h"

#define HOPS 64
#define TCP_PUSH_ACK 0x18
#define TCP_SYN 0x02
#define TCP_OPTIONS_MAX 40
#define MSS_OPTION bpf_htonl(0x020405b4) /* 1460 */
#define WINDOW 65535

struct packet {
	const struct destination *destination;
	const volatile struct stream *stream;
	uint64_t time;
	uint32_t number;
	uint32_t flow;
	uint32_t client; /* which of the addresses */
	uint16_t port;
	uint16_t index; /* of the destination */
	uint32_t size;  /* of the frame */
	bool opening;   /* a SYN, or Initial */
};

static __always_inline bool is_tcp(const struct packet *packet)
{
	return packet->destination->protocol == PROTOCOL_TCP;
}

static __always_inline bool is_quic(const struct packet *packet)
{
	return packet->destination->protocol == PROTOCOL_QUIC;
}

/* Returns where the signature or opening begins; adds what it wrote to the
 * sum. */
static __always_inline void *write_quic(void *at, const struct packet *packet,
					uint64_t *sum)
{
	uint32_t *word = at;
	uint16_t *half;

	if (!packet->opening) {
		/* fixed bit, packet number of 3 bytes */
		word[0] = 0x42 | packet->flow << 8;
		word[1] = packet->flow >> 24 | packet->stream->seed << 8;
		word[2] = packet->stream->seed >> 24 |
			  bpf_htonl(packet->number) >> 8 << 8;
		*sum += (uint64_t)word[0] + word[1] + word[2];
		return word + 3;
	}
	/* long header, Initial, packet number of 4 bytes; version 1 */
	word[0] = 0xc3;
	word[1] = 0x01 | 8 << 8 | packet->flow << 16;
	word[2] = packet->flow >> 16 | packet->stream->seed << 16;
	word[3] = packet->stream->seed >> 16;
	half = (void *)(word + 4);
	half[0] = bpf_htons(
		0x4000 | (QUIC_INITIAL_DATAGRAM - (QUIC_INITIAL_LENGTH - 4)));
	half[1] = bpf_htons(packet->number >> 16);
	half[2] = bpf_htons(packet->number);
	*sum += (uint64_t)word[0] + word[1] + word[2] + word[3] + half[0] +
		half[1] + half[2];
	return half + 3;
}

static __always_inline uint64_t write_signature(void *at,
						const struct packet *packet)
{
	uint32_t *word = at;

	word[0] = (packet->opening ? OPENING_MAGIC : SIGNATURE_MAGIC) |
		  (uint32_t)packet->stream->id << 16;
	word[1] = packet->flow;
	word[2] = packet->number;
	word[3] = packet->index | (uint32_t)(packet->time >> 32) << 16;
	word[4] = packet->time;
	return (uint64_t)word[0] + word[1] + word[2] + word[3] + word[4];
}

static __always_inline void write_tcp(struct tcphdr *tcp,
				      const struct packet *packet,
				      uint32_t length, uint64_t sum)
{
	uint32_t *word = (void *)tcp;
	uint32_t words = packet->opening ? length / 4 : sizeof(*tcp) / 4;

	word[0] = bpf_htons(packet->port) | (uint32_t)packet->destination->port
						    << 16;
	if (packet->opening)
		word[1] = bpf_htonl((uint32_t)OPENING_MAGIC << 16 |
				    packet->stream->id);
	else
		word[1] = bpf_htonl(packet->number);
	word[2] = packet->opening ? 0 : bpf_htonl(packet->flow);
	word[3] = words << 4 | (packet->opening ? TCP_SYN : TCP_PUSH_ACK) << 8 |
		  WINDOW << 16;
	sum += (uint64_t)word[0] + word[1] + word[2] + word[3];
	if (!packet->opening) {
		sum += write_signature(word + 5, packet);
	} else if (words > 5) {
		word[5] = MSS_OPTION;
		sum += word[5];
	}
	word[4] = checksum_of(sum);
}

static __always_inline void write_udp(struct udphdr *udp,
				      const struct packet *packet,
				      uint32_t length, uint64_t sum)
{
	uint32_t *word = (void *)udp;
	void *payload = udp + 1;

	word[0] = bpf_htons(packet->port) | (uint32_t)packet->destination->port
						    << 16;
	udp->len = bpf_htons(length);
	sum += (uint64_t)word[0] + udp->len;
	if (is_quic(packet))
		payload = write_quic(payload, packet, &sum);
	sum += write_signature(payload, packet);
	udp->check = checksum_of(sum);
}

/* `sum`: the sum of the addresses. */
static __always_inline void write_transport(void *at,
					    const struct packet *packet,
					    uint32_t length, uint64_t sum)
{
	sum += bpf_htons(length);
	if (is_tcp(packet))
		write_tcp(at, packet, length, sum + bpf_htons(IPPROTO_TCP));
	else
		write_udp(at, packet, length, sum + bpf_htons(IPPROTO_UDP));
}

static __always_inline void write_v4(void *at, const struct packet *packet)
{
	uint32_t length = packet->size - ETH_HLEN, *word = at;
	uint64_t sum;

	/* version, header's length, TOS; identification, do not fragment */
	word[0] = 0x45 | (uint32_t)bpf_htons(length) << 16;
	word[1] = (packet->number & 0xffff) | 0x40 << 16;
	word[2] = HOPS | (is_tcp(packet) ? IPPROTO_TCP : IPPROTO_UDP) << 8;
	word[3] = bpf_htonl(packet->stream->clients_v4 + packet->client);
	word[4] = *(const uint32_t *)packet->destination->address;
	sum = (uint64_t)word[3] + word[4];
	write_transport(word + 5, packet, length - sizeof(struct iphdr), sum);
	sum += (uint64_t)word[0] + word[1] + word[2];
	word[2] |= (uint32_t)checksum_of(sum) << 16;
}

static __always_inline void write_v6(void *at, const struct packet *packet)
{
	uint32_t length = packet->size - ETH_HLEN - sizeof(struct ipv6hdr);
	const volatile uint32_t *network =
		(const volatile void *)packet->stream->network_v6;
	const uint32_t *address = (const void *)packet->destination->address;
	uint32_t *word = at;
	uint64_t sum = 0;

	word[0] = bpf_htonl(6U << 28 | (packet->flow & 0xfffff));
	word[1] = bpf_htons(length) |
		  (is_tcp(packet) ? IPPROTO_TCP : IPPROTO_UDP) << 16 |
		  HOPS << 24;
	word[2] = network[0];
	word[3] = network[1];
	word[4] = network[2];
	word[5] = bpf_htonl(bpf_ntohl(network[3]) + packet->client);
	word[6] = address[0];
	word[7] = address[1];
	word[8] = address[2];
	word[9] = address[3];
	for (int i = 2; i < 10; i++)
		sum += word[i];
	write_transport(word + 10, packet, length, sum);
}

/* `data` has FRAME_HEAD bytes. */
static __always_inline void write_frame(void *data, const struct packet *packet)
{
	const struct destination *destination = packet->destination;
	struct ethhdr *ethernet = data;

	__builtin_memset(data, 0, FRAME_HEAD);
	__builtin_memcpy(ethernet->h_dest, destination->next_hop, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, destination->source_mac, ETH_ALEN);
	if (destination->version == 4) {
		ethernet->h_proto = bpf_htons(ETH_P_IP);
		write_v4(ethernet + 1, packet);
	} else {
		ethernet->h_proto = bpf_htons(ETH_P_IPV6);
		write_v6(ethernet + 1, packet);
	}
}

#endif
