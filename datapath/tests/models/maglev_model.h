/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm of the Maglev paper, to check the library's tables. */
#ifndef OXP_MAGLEV_MODEL_H
#define OXP_MAGLEV_MODEL_H

#include "octavia_xdp.h"

/* Like oxp_test_maglev(), for sorted addresses. */
void build_by_the_book(const struct oxp_address *addresses,
		       const uint16_t *weights, uint32_t count, uint32_t slots,
		       uint16_t *out);

#endif
