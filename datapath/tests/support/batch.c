// SPDX-License-Identifier: Apache-2.0
#include "batch.h"

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <string.h>

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

void batch_add(struct batch *batch, const struct oxp_key *key,
	       const struct client *client, uint8_t tcp_flags)
{
	uint8_t *frame = batch->in[batch->count], *ip = frame + ETHERNET;
	bool tcp = key->protocol == IPPROTO_TCP;
	uint32_t source = htonl(client->source);

	memset(frame, 0, sizeof(batch->in[0]));
	put16(frame + 12, 0x0800);
	ip[0] = 0x45;
	put16(ip + 2, IP + (tcp ? 20 : 8));
	ip[8] = 64;
	ip[9] = key->protocol;
	memcpy(ip + 12, &source, 4);
	memcpy(ip + 16, key->vip.bytes + 12, 4);
	put16(ip + IP, client->port);
	put16(ip + IP + 2, key->port);
	if (tcp) {
		ip[IP + 12] = 0x50;
		ip[IP + 13] = tcp_flags;
	} else {
		put16(ip + IP + 4, 8);
	}
	batch->frame[batch->count] = (struct oxp_frame){
		.data = frame,
		.length = ETHERNET + IP + (tcp ? 20 : 8),
		.out = batch->out[batch->count],
		.capacity = sizeof(batch->out[0]),
	};
	batch->count++;
}

void batch_run(struct batch *batch, struct oxp_node *node, uint8_t *out)
{
	assert_int_equal(oxp_test_run(node, batch->frame, batch->count, error),
			 batch->count);
	for (uint32_t i = 0; i < batch->count; i++) {
		const uint8_t *outer = batch->out[i] + ETHERNET + 16;

		assert_int_equal(batch->frame[i].action, XDP_TX);
		assert_memory_equal(outer, "\x0a\x01\x00", 3);
		out[i] = outer[3];
	}
	batch->count = 0;
}
