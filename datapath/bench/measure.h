/* SPDX-License-Identifier: Apache-2.0 */
/* Nanoseconds per packet of a program, net of the harness. */
#ifndef OXP_MEASURE_H
#define OXP_MEASURE_H

#include "harness.h"

/* The packets of a case: one frame, parts of which are random. */
struct traffic {
	const char *destination;
	uint8_t protocol;
	uint8_t tcp_flags;
	uint8_t options;    /* bytes of TCP options, the first is MSS 1460 */
	uint16_t port;      /* of the service */
	uint16_t ports;     /* random ones above, a power of two less one */
	uint16_t vips;      /* so many IPv4 destinations at random */
	uint32_t flows;     /* power of two, at most 2^24 */
	bool new_flows;     /* the source port is random, too */
	bool flood_before;  /* spoofed SYNs before each round */
	int action;         /* that the program must return */
	bool reads_a_line;  /* so does the floor, somewhere in 128 MB */
	bool sets_up_flows; /* a SYN and an ACK of each flow before all */
};

struct cost {
	int least, median; /* ns */
};

/*
 * Means of quiet rounds; and what batches of packets cost that nothing
 * disturbed, neighbours of the machine neither: the hundredth of all that were
 * run, quiet rounds or not, from the quickest on.
 */
struct result {
	struct cost program, floor;
	int quiet_runs;
	double undisturbed, undisturbed_floor; /* ns */
};

/* Of each case, 40 at most. */
extern int quiet_runs_wanted;

/* Rounds of harness, floor and program in turn, until enough of them were
 * quiet: the harness took about its least before and after. */
struct result measure(int program, const struct traffic *traffic);

#endif
