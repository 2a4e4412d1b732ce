/* SPDX-License-Identifier: Apache-2.0 */
/* Running packets through a member's programs. */
#ifndef OXP_MEMBER_HARNESS_H
#define OXP_MEMBER_HARNESS_H

#include "member.h"
#include "member.skel.h"
#include "member_packets.h"

/* The program and its settings. */
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

extern enum program program_of[PROGRAMS];

/* Load with the VIPs, own addresses and nodes of member_packets.h. */
void set_up(struct bench *bench, enum program program,
	    const struct member_config *config);
void tear_down(struct bench *bench);
void add_port(struct bench *bench, const char *vip, uint8_t protocol,
	      uint16_t port, uint16_t local);
void add_dscp(struct bench *bench, unsigned int dscp, const char *vip);

uint64_t counter(const struct bench *bench, enum member_counter which);
uint64_t all_counters(const struct bench *bench);

/* For incoming packets. */
void expect_taken(const struct bench *bench, const struct frame *in,
		  const struct frame *expected);
/* `sent` in a tunnel must become `seen` without one. */
void expect_decapsulated(const struct bench *bench, const struct packet *sent,
			 const struct outer *outer, const struct packet *seen);
/* By the tc program; XDP must leave it alone. */
void expect_taken_by_tc(const struct bench *bench, const struct frame *in,
			const struct frame *expected);
void expect_passed(const struct bench *bench, const struct frame *in);
/* By the tc program; XDP must leave it alone. */
void expect_handed_on(const struct bench *bench, const struct frame *in,
		      const struct frame *expected);
void expect_dropped(const struct bench *bench, const struct frame *in,
		    enum member_counter counter);
/* For answers. */
void expect_out(const struct bench *bench, const struct frame *in,
		const struct frame *expected);

/* A test with one of the programs, in a file that has an end(). */
#define RUN_WITH(prefix, name, which)                                          \
	{prefix #name, name, NULL, end, &program_of[which]}
#define WITH_XDP(name) RUN_WITH("xdp: ", name, XDP)
#define WITH_TC(name) RUN_WITH("tc: ", name, TC)
#define WITH_OLD_TC(name) RUN_WITH("old tc: ", name, TC_OLD)

#endif
