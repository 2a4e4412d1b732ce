// SPDX-License-Identifier: Apache-2.0
/*
 * Filling the last slots of a table. In the paper's algorithm most steps are
 * spent there: a walk visits M / 2 slots on average to find the last one. So
 * compute the inverse: when does each member visit each free slot? A member's
 * next slot is the one with the least time, and the inverse of its permutation
 * gives the times.
 */
#include "table/maglev_last.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* time[i] tells for one member when it visits slot which[i], with i in the low
 * bits; the minimum is its next slot. */
struct last {
	uint32_t left;
	uint32_t which[MAGLEV_LAST];
	uint32_t position[MAGLEV_LAST]; /* of i in every time[] */
	uint32_t (*time)[MAGLEV_LAST];  /* of each member */
};

/* Returns the inverse of a modulo a prime, by Euclid's algorithm. */
static uint32_t inverse(uint32_t a, uint32_t prime)
{
	int64_t t = 0, next_t = 1, r = prime, next_r = a;

	while (next_r) {
		int64_t quotient = r / next_r, swap;

		swap = t - quotient * next_t;
		t = next_t;
		next_t = swap;
		swap = r - quotient * next_r;
		r = next_r;
		next_r = swap;
	}
	return t < 0 ? t + prime : t;
}

static void find_free(struct last *last, const struct filling *filling)
{
	const uint8_t *is_free = filling->is_free, *end, *at;

	end = is_free + filling->slots;
	for (at = is_free; last->left < filling->left; at++) {
		at = memchr(at, 1, end - at);
		last->position[last->left] = last->left;
		last->which[last->left++] = at - is_free;
	}
}

static void find_times(struct last *last, const struct filling *filling)
{
	/* n / slots for n below 2^40: multiplying by the reciprocal gives at
	 * most one too few */
	uint32_t slots = filling->slots;
	uint64_t reciprocal = UINT64_MAX / slots;

	for (uint32_t i = 0; i < filling->count; i++) {
		const struct walk *walk = &filling->walks[i];
		uint32_t next = *walk->candidate == slots ? walk->next
							  : *walk->candidate;
		uint64_t back = inverse(walk->skip, slots);
		uint32_t *time = last->time[i];

		for (uint32_t j = 0; j < last->left; j++) {
			uint32_t slot = last->which[j];
			uint64_t n = (slot >= next ? slot - next
						   : slot + slots - next) *
				     back;
			uint64_t rest = n - (uint64_t)((unsigned __int128)n *
							       reciprocal >>
						       64) *
						    slots;

			if (rest >= slots)
				rest -= slots;
			time[j] = rest * MAGLEV_LAST + j; /* below 2^27 */
		}
	}
}

__attribute__((target_clones("avx2", "default"))) static uint32_t
least(const uint32_t *time, uint32_t count)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < count; i++)
		least = time[i] < least ? time[i] : least;
	return least;
}

static void take_last(struct last *last, const struct filling *filling,
		      uint32_t member)
{
	uint32_t taken = least(last->time[member], last->left) % MAGLEV_LAST;
	uint32_t hole = last->position[taken], end = --last->left;

	filling->out[last->which[taken]] = filling->walks[member].value;
	if (hole == end)
		return;
	last->position[last->time[0][end] % MAGLEV_LAST] = hole;
	for (uint32_t i = 0; i < filling->count; i++)
		last->time[i][hole] = last->time[i][end];
}

int maglev_last(struct filling *filling)
{
	struct last last = {
		.time = malloc(filling->count * sizeof(*last.time)),
	};

	if (!last.time)
		return -ENOMEM;
	find_free(&last, filling);
	find_times(&last, filling);
	while (last.left)
		take_last(&last, filling, next_turn(filling));
	free(last.time);
	return 0;
}
