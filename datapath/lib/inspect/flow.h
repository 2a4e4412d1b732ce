/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_INSPECT_FLOW_H
#define OXP_INSPECT_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* The fields that select a packet's slot, in network order. */
struct selecting {
	__be32 source[4];
	__be32 destination[4];
	uint32_t ports;
	uint8_t protocol;
	bool v4;
};

struct selecting selecting_of(const struct service_block *block,
			      const struct oxp_packet *packet);

uint64_t selecting_hash(const struct selecting *flow, uint64_t seed);

uint32_t slot_of_packet(const struct service_block *block,
			const struct oxp_packet *packet);

#endif
