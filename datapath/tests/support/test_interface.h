/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that only tests need. They are not in the library that is installed:
 * C tests link them, Python tests load liboctavia_xdp_test.so, which is the
 * library and these. In the subset of C that cffi reads, as octavia_xdp.h,
 * whose conventions hold here too.
 */
#ifndef OXP_TEST_INTERFACE_H
#define OXP_TEST_INTERFACE_H

#include "octavia_xdp.h"

/* Detaches everything and removes the pins: forwarding ends. */
int oxp_test_destroy(struct oxp_node *node, char *error);

/* Runs frames in turn through the program that is attached, or, while none
 * is, through the one that would be, by BPF_PROG_TEST_RUN: nothing is sent.
 * The program does not know: such packets count in all counters, and flows
 * and fragments are remembered. Interfaces are those of the caller's network
 * namespace. Returns the number of frames that were run: `count`, or fewer
 * and an error's text about the next one, or a negative errno if that is the
 * first. */
int oxp_test_run(struct oxp_node *node, struct oxp_frame *frames,
		 uint32_t count, char *error);

/* Which member a new flow goes to. -ENETUNREACH: none. -EAFNOSUPPORT: client
 * and VIP are of different families. */
int oxp_test_pick(struct oxp_node *node, const struct oxp_key *key,
		  const struct oxp_address *client, uint16_t client_port,
		  struct oxp_address *member, char *error);

/* oxp_faults_list(): returns how many there are, and `error` is the first. */
int oxp_test_verify(struct oxp_node *node, char *error);

/* A Maglev table as a pure function of the set of (address, port, weight):
 * out[i] is an index into `addresses`, or OXP_NO_MEMBER in every slot if nobody
 * has a weight. Needs neither node nor privileges. */
int oxp_test_maglev_ports(const struct oxp_address *addresses,
			  const uint16_t *ports, const uint16_t *weights,
			  uint32_t count, uint32_t slots, uint16_t *out);
/* The same of members without ports. */
int oxp_test_maglev(const struct oxp_address *addresses,
		    const uint16_t *weights, uint32_t count, uint32_t slots,
		    uint16_t *out);

/* See OXP_QUIC_CONFIG. */
uint32_t oxp_test_quic_server_id(const struct oxp_address *member,
				 uint16_t port);

#endif
