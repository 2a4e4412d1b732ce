/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_MAGLEV_H
#define OXP_TABLE_MAGLEV_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct eligible_member {
	const uint8_t *name; /* 16 bytes */
	uint16_t port;       /* a part of the name; 0: it has none */
	uint16_t weight;     /* not 0 */
	uint16_t value;      /* what goes into its slots, not OXP_NO_MEMBER */
};

/* Where a member's permutation begins and how it goes on. */
void maglev_hashes(const uint8_t *name, uint16_t port, uint32_t slots,
		   uint32_t *offset, uint32_t *skip);

bool is_prime(uint32_t number);

/* `eligible` in the order of their names. */
int maglev_fill(const struct eligible_member *eligible, uint32_t count,
		uint32_t slots, uint16_t *out);

#endif
