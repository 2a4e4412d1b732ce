// SPDX-License-Identifier: Apache-2.0
#include "maglev_model.h"

#include "harness.h"

/* The paper's algorithm like its pseudo-code, with weights as in maglev.c:
 * permutations in arrays, step by step. */
void build_by_the_book(const struct oxp_address *addresses,
		       const uint16_t *weights, uint32_t count, uint32_t slots,
		       uint16_t *out)
{
	uint32_t credit[256] = {}, at[256] = {}, left = slots, greatest = 0;
	uint32_t *order[256];

	/* addresses are sorted already */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t offset, skip;

		maglev_hashes(addresses[i].bytes, 0, slots, &offset, &skip);
		order[i] = calloc(slots, sizeof(uint32_t));
		for (uint32_t j = 0; j < slots; j++)
			order[i][j] = (offset + (uint64_t)j * skip) % slots;
		if (weights[i] > greatest)
			greatest = weights[i];
	}
	memset(out, 0xff, slots * sizeof(*out));
	while (left && greatest)
		for (uint32_t i = 0; i < count && left; i++) {
			credit[i] += weights[i];
			if (!weights[i] || credit[i] < greatest)
				continue;
			credit[i] -= greatest;
			while (out[order[i][at[i]]] != OXP_NO_MEMBER)
				at[i]++;
			out[order[i][at[i]]] = i;
			left--;
		}
	for (uint32_t i = 0; i < count; i++)
		free(order[i]);
}
