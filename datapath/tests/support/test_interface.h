/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that only tests need. They are not in the installed library: C tests
 * link them, Python tests load liboctavia_xdp_test.so, which is the library
 * plus these. The header is in the subset of C that cffi reads, like
 * octavia_xdp.h, with the same conventions.
 */
#ifndef OXP_TEST_INTERFACE_H
#define OXP_TEST_INTERFACE_H

#include "octavia_xdp.h"

/* Detach everything and remove the pins: forwarding ends. */
int oxp_test_destroy(struct oxp_node *node, char *error);

/* Run frames in turn through the attached program or, if there is none, through
 * the one that would be attached, by BPF_PROG_TEST_RUN: nothing is sent. The
 * program cannot tell: packets count in all counters, and flows and fragments
 * are remembered. Interfaces are those of the caller's network namespace.
 * Returns the number of frames that were run: `count`, or fewer with the next
 * one's error in `error`; a negative errno if the first failed. */
int oxp_test_run(struct oxp_node *node, struct oxp_frame *frames,
		 uint32_t count, char *error);

/* Find the member for a new flow. -ENETUNREACH: there is none. -EAFNOSUPPORT:
 * client and VIP are of different families. */
int oxp_test_pick(struct oxp_node *node, const struct oxp_key *key,
		  const struct oxp_address *client, uint16_t client_port,
		  struct oxp_address *member, char *error);

/* oxp_faults_list(): returns how many there are; the first one in `error`. */
int oxp_test_verify(struct oxp_node *node, char *error);

/* A Maglev table as a pure function of the set of (address, port, weight):
 * out[i] is an index into `addresses`, or OXP_NO_MEMBER in every slot if no
 * weight is positive. Needs neither a node nor privileges. */
int oxp_test_maglev_ports(const struct oxp_address *addresses,
			  const uint16_t *ports, const uint16_t *weights,
			  uint32_t count, uint32_t slots, uint16_t *out);
/* The same for members without ports. */
int oxp_test_maglev(const struct oxp_address *addresses,
		    const uint16_t *weights, uint32_t count, uint32_t slots,
		    uint16_t *out);

/* See OXP_QUIC_CONFIG. */
uint32_t oxp_test_quic_server_id(const struct oxp_address *member,
				 uint16_t port);

#endif
