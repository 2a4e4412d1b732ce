// SPDX-License-Identifier: Apache-2.0
/* The fields of a packet that select its slot, as in the program. */
#include "inspect/flow.h"

#include <arpa/inet.h>
#include <string.h>

#include "address.h"
#include "state.h"

static void keep_bits(__be32 *words, int length)
{
	for (int i = 0; i < 4; i++, length -= 32)
		if (length <= 0)
			words[i] = 0;
		else if (length < 32)
			words[i] &= htonl(~0U << (32 - length));
}

struct selecting selecting_of(const struct service_block *block,
			      const struct oxp_packet *packet)
{
	struct selecting flow = {.protocol = packet->protocol,
				 .v4 = is_v4(packet->destination.bytes)};

	memcpy(flow.source, packet->source.bytes, sizeof(flow.source));
	memcpy(flow.destination, packet->destination.bytes,
	       sizeof(flow.destination));
	if (!packet->later)
		flow.ports = (uint32_t)htons(packet->source_port) << 16 |
			     htons(packet->destination_port);
	if (block->flags & OXP_SERVICE_SOURCE) {
		flow.ports = 0;
		flow.protocol = 0;
		keep_bits(flow.source, flow.v4 ? 96 + block->source_length_v4
					       : block->source_length_v6);
	}
	return flow;
}

uint64_t selecting_hash(const struct selecting *flow, uint64_t seed)
{
	if (flow->v4)
		return seeded_hash_v4(flow->source[3], flow->destination[3],
				      flow->ports, flow->protocol, seed);
	return seeded_hash_v6(flow->source, flow->destination, flow->ports,
			      flow->protocol, seed);
}

uint32_t slot_of_packet(const struct service_block *block,
			const struct oxp_packet *packet)
{
	struct selecting flow = selecting_of(block, packet);

	return flow_slot(selecting_hash(&flow, FLOW_SEED), block->slots);
}
