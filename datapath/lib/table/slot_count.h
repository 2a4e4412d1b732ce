/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_SLOT_COUNT_H
#define OXP_TABLE_SLOT_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Returns how many slots these members need: a prime up to slots_max. */
uint32_t slot_count(const struct block_member *members, uint32_t count,
		    uint32_t slots_max);

#endif
