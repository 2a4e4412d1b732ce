/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of a member, written from the RFCs and not from the programs, and
 * running them. All checksums are computed from the whole packet, never
 * corrected.
 */
#ifndef OXP_MEMBER_HARNESS_H
#define OXP_MEMBER_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "member.h"
#include "member.skel.h"

#define CLIENT "198.51.100.7"
#define CLIENT6 "2001:db8:c::7"
#define VIP "192.0.2.1"
#define VIP6 "2001:db8:f::1"
#define OWN "10.1.0.1"
#define OWN6 "2001:db8:1::1"
#define NODE "10.0.0.17" /* in 10.0.0.0/24 */
#define NODE6 "2001:db8:0:17::1"
#define FOREIGN "10.0.1.17"
#define FOREIGN6 "2001:db8:1:17::1"

#define FRAME_MAX 3000
struct frame {
	uint8_t data[FRAME_MAX];
	size_t length;
};

/* An IP packet; its fields' zeroes are the usual packet. */
struct packet {
	const char *from, *to; /* of one family */
	uint8_t protocol;
	uint16_t from_port, to_port; /* TCP, UDP */
	uint8_t type;                /* ICMP */
	uint8_t tos;
	uint8_t flags;     /* TCP; 0: ACK */
	uint16_t fragment; /* flags and offset in 8-byte units */
	bool no_checksum;  /* UDP */
	bool extensions;   /* IPv6: hop-by-hop and destination options */
	const uint8_t *options;
	size_t options_length; /* TCP, a multiple of 4 */
	const uint8_t *payload;
	size_t length; /* of the payload; NULL: a pattern */
};

enum kind {
	IPIP,
	GUE,
	GRE,
	KINDS
};

struct outer {
	const char *from, *to;
	enum kind kind;
	uint8_t tos;
	unsigned int tags; /* VLAN */
};

/* Which program, with which settings. */
enum program {
	XDP,
	TC,
	TC_OLD,
	PROGRAMS
};

struct bench {
	struct member *object;
	enum program program;
};

extern const char *const program_names[PROGRAMS];

bool is_ipv4(const char *address);
/* Appends the packet to the frame. */
void put_packet(struct frame *frame, const struct packet *packet);
void put_link(struct frame *frame, unsigned int tags, bool ipv4);
/* From the link on. */
void make_plain(struct frame *frame, const struct packet *packet,
		unsigned int tags);
void make_tunnel(struct frame *frame, const struct packet *packet,
		 const struct outer *outer);
/* Any bytes as the inner packet. */
void wrap(struct frame *frame, const uint8_t *inner, size_t length,
	  bool inner_ipv4, const struct outer *outer);
/* An ICMP error whose quote is `quoted`, cut to `length` bytes. */
void make_error(struct packet *error, uint8_t *payload,
		const struct packet *quoted, size_t length);

/* Loads with VIPs, own addresses and nodes as above. */
void set_up(struct bench *bench, enum program program,
	    const struct member_config *config);
void tear_down(struct bench *bench);
void add_port(struct bench *bench, const char *vip, uint8_t protocol,
	      uint16_t port, uint16_t local);
void add_dscp(struct bench *bench, unsigned int dscp, const char *vip);

uint64_t counter(const struct bench *bench, enum member_counter which);
uint64_t all_counters(const struct bench *bench);

/* Of the packets that come in. */
void expect_taken(const struct bench *bench, const struct frame *in,
		  const struct frame *expected);
/* `sent` in a tunnel becomes `seen` without one. */
void expect_decapsulated(const struct bench *bench, const struct packet *sent,
			 const struct outer *outer, const struct packet *seen);
void expect_passed(const struct bench *bench, const struct frame *in);
void expect_dropped(const struct bench *bench, const struct frame *in,
		    enum member_counter counter);
/* Of the answers. */
void expect_out(const struct bench *bench, const struct frame *in,
		const struct frame *expected);

/* A test of a file that has an end(), by program. */
#define TEST_OF(prefix, name, which)                                           \
	{                                                                      \
		prefix #name, name, NULL, end, &(enum program)                 \
		{                                                              \
			which                                                  \
		}                                                              \
	}
#define TEST_XDP(name) TEST_OF("xdp: ", name, XDP)
#define TEST_TC(name) TEST_OF("tc: ", name, TC)
#define TEST_OLD_TC(name) TEST_OF("old tc: ", name, TC_OLD)

#endif
