/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of many clients, run through the node's program together. */
#ifndef OXP_BATCH_H
#define OXP_BATCH_H

#include "harness.h"

#define BATCH 64
#define ETHERNET 14
#define IP 20

struct client {
	uint32_t source; /* host order */
	uint16_t port;
	uint8_t member; /* last byte of the member's address; 0: none */
	uint32_t since; /* wave in which the flow began */
};

struct batch {
	struct oxp_frame frame[BATCH];
	uint8_t in[BATCH][ETHERNET + IP + 20];
	uint8_t out[BATCH][ETHERNET + IP + IP + 20];
	uint32_t count;
};

/* Add a packet of the client to the service, without payload. */
void batch_add(struct batch *batch, const struct oxp_key *key,
	       const struct client *client, uint8_t tcp_flags);
/* Run the packets that were added. Each must be sent to 10.1.0.x: out[i] is the
 * x of frame i. */
void batch_run(struct batch *batch, struct oxp_node *node, uint8_t *out);

#endif
