/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_MAGLEV_H
#define OXP_TABLE_MAGLEV_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct eligible_member {
	const uint8_t *name; /* 16 bytes */
	uint16_t port;       /* part of the name; 0: none */
	uint16_t weight;     /* not 0 */
	uint16_t value;      /* written to its slots, not OXP_NO_MEMBER */
};

/* Start and step of a member's permutation. */
void maglev_hashes(const uint8_t *name, uint16_t port, uint32_t slots,
		   uint32_t *offset, uint32_t *skip);

bool is_prime(uint32_t number);

/* `eligible` must be sorted by name. */
int maglev_fill(const struct eligible_member *eligible, uint32_t count,
		uint32_t slots, uint16_t *out);

#endif
