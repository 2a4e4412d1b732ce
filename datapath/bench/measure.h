/* SPDX-License-Identifier: Apache-2.0 */
/* Nanoseconds per packet of a program, net of the harness. */
#ifndef OXP_MEASURE_H
#define OXP_MEASURE_H

#include "harness.h"

/* The packets of a case: one frame with random parts. */
struct traffic {
	const char *destination;
	uint8_t protocol;
	uint8_t tcp_flags;
	uint8_t options;    /* bytes of TCP options, the first is MSS 1460 */
	uint16_t port;      /* of the service */
	uint16_t ports;     /* random ones above it: a power of two less one */
	uint16_t vips;      /* number of random IPv4 destinations */
	uint32_t flows;     /* a power of two, at most 2^24 */
	bool new_flows;     /* random source ports, too */
	bool flood_before;  /* spoofed SYNs before each round */
	int action;         /* expected from the program */
	bool reads_a_line;  /* the floor reads a random line in 128 MB, too */
	bool sets_up_flows; /* first send a SYN and an ACK of each flow */
};

struct cost {
	int least, median; /* ns */
};

/*
 * Least and median of quiet rounds; and the first percentile of the cost of
 * batches in all rounds, quiet or not, which neither this machine nor its
 * neighbours disturbed.
 */
struct result {
	struct cost program, floor;
	int quiet_runs;
	double undisturbed, undisturbed_floor; /* ns */
};

/* Per case, at most 40. */
extern int quiet_runs_wanted;

/* Run harness, floor and program in turn until enough rounds were quiet: the
 * harness took about its least time before and after. */
struct result measure(int program, const struct traffic *traffic);

#endif
