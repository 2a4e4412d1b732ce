/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of a member, built from the RFCs and not as the programs do it. All
 * checksums are computed from the whole packet, never adjusted.
 */
#ifndef OXP_MEMBER_PACKETS_H
#define OXP_MEMBER_PACKETS_H

#include "member.h"
#include "tests.h"

#define CLIENT "198.51.100.7"
#define CLIENT6 "2001:db8:c::7"
#define VIP "192.0.2.1"
#define VIP6 "2001:db8:f::1"
#define OWN "10.1.0.1"
#define OWN6 "2001:db8:1::1"
#define NODE "10.0.0.17" /* in 10.0.0.0/24 */
#define NODE6 "2001:db8:0:17::1"
#define MEMBER "10.1.0.2" /* in 10.1.0.0/16 */
#define MEMBER6 "2001:db8:1::2"
#define FOREIGN "10.0.1.17"
#define FOREIGN6 "2001:db8:1:17::1"

#define FRAME_MAX 3000
struct frame {
	uint8_t data[FRAME_MAX];
	size_t length;
};

/* An IP packet; zeroes in fields give the usual packet. */
struct packet {
	const char *from, *to; /* of the same family */
	uint8_t protocol;
	uint16_t from_port, to_port; /* TCP and UDP */
	uint8_t type;                /* ICMP */
	uint8_t tos;
	uint8_t flags;         /* TCP; 0: ACK */
	uint32_t sequence;     /* TCP; 0: any */
	uint32_t acknowledged; /* TCP */
	uint16_t fragment;     /* flags and offset in 8-byte units */
	bool no_checksum;      /* UDP */
	bool extensions;       /* IPv6: hop-by-hop and destination options */
	const uint8_t *options;
	size_t options_length; /* TCP, a multiple of 4 */
	const uint8_t *payload;
	size_t length; /* of the payload; payload NULL: a pattern */
};

enum kind {
	IPIP,
	GUE,
	GRE,
	GENEVE,
	KINDS
};

struct outer {
	const char *from, *to;
	enum kind kind;
	uint8_t tos;
	unsigned int tags; /* VLAN */
	uint32_t vni;
	/* GUE, GENEVE, and IPIP over IPv6, which then is SRv6; NULL: none */
	const char *alternative;
	uint32_t alternative_vni;
	uint8_t ttl; /* 0: any */
};

bool is_ipv4(const char *address);
bool has_udp(enum kind kind);
/* IPv4 as ::ffff:a.b.c.d. */
struct ip_address mapped(const char *text);
/* Append the packet to the frame. */
void put_packet(struct frame *frame, const struct packet *packet);
void put_link(struct frame *frame, unsigned int tags, bool ipv4);
/* Including the link header. */
void make_plain(struct frame *frame, const struct packet *packet,
		unsigned int tags);
void make_tunnel(struct frame *frame, const struct packet *packet,
		 const struct outer *outer);
/* With any bytes as the inner packet. */
void wrap(struct frame *frame, const uint8_t *inner, size_t length,
	  bool inner_ipv4, const struct outer *outer);
/* An ICMP error that quotes `length` bytes of `quoted`. */
void make_error(struct packet *error, uint8_t *payload,
		const struct packet *quoted, size_t length);

#endif
