// SPDX-License-Identifier: Apache-2.0
/*
 * Maglev hashing: Eisenbud et al., "Maglev: A Fast and Reliable Software
 * Network Load Balancer", NSDI 2016, section 3.4.
 *
 * A member's name is its address (16 bytes). If an address has several members,
 * the port (2 bytes, big endian) is part of the name of all but the one with
 * the lowest port. So a table depends only on the set of members. The paper's
 * two hash functions are 64-bit FNV-1a over the name, started from two seeds
 * and finished by MurmurHash3's fmix64. The permutation is computed while
 * walking, not stored.
 *
 * With f of M slots free, a member visits M / f slots on average to find one,
 * and where it stops is random: a mispredicted branch costs more than many
 * steps. So a walk runs some steps ahead of its turns, without a branch in
 * each, and keeps free slots as candidates. Others take few of them before its
 * turn comes. For the last few slots see maglev_last.c.
 *
 * Weights are not in the paper. With w_max the greatest weight, in round r a
 * member takes its turn if floor((r + 1) * w / w_max) > floor(r * w / w_max):
 * equal weights give the paper's table.
 */
#include "table/maglev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "table/maglev_last.h"

#define FNV_OFFSET 0xcbf29ce484222325ULL
#define FNV_PRIME 0x100000001b3ULL
#define OFFSET_SEED 0x6f66667365740001ULL /* "offset" */
#define SKIP_SEED 0x736b697000000002ULL   /* "skip" */

static uint64_t name_hash(const uint8_t *name, uint16_t port, uint64_t seed)
{
	uint64_t hash = FNV_OFFSET ^ seed;

	for (int i = 0; i < 16; i++)
		hash = (hash ^ name[i]) * FNV_PRIME;
	if (port) {
		hash = (hash ^ port >> 8) * FNV_PRIME;
		hash = (hash ^ (port & 255)) * FNV_PRIME;
	}
	hash ^= hash >> 33;
	hash *= 0xff51afd7ed558ccdULL;
	hash ^= hash >> 33;
	hash *= 0xc4ceb9fe1a85ec53ULL;
	hash ^= hash >> 33;
	return hash;
}

void maglev_hashes(const uint8_t *name, uint16_t port, uint32_t slots,
		   uint32_t *offset, uint32_t *skip)
{
	*offset = name_hash(name, port, OFFSET_SEED) % slots;
	*skip = name_hash(name, port, SKIP_SEED) % (slots - 1) + 1;
}

#define LANES 8 /* steps computed in parallel */
#define AHEAD_MIN 32
#define AHEAD_MAX 256

static inline uint32_t wrap(uint32_t slot, uint32_t slots)
{
	uint32_t wrapped = slot - slots;

	return wrapped < slot ? wrapped : slot;
}

/* Make those of the walk's next `ahead` slots candidates that are free. */
__attribute__((target_clones("avx2", "default"))) static uint32_t
look_ahead(struct walk *walk, uint32_t slots, const uint8_t *is_free,
	   uint32_t ahead, uint32_t *candidates)
{
	uint32_t slot[AHEAD_MAX], lane[LANES], stride = 0, found = 0;

	for (int i = 0; i < LANES; i++) {
		lane[i] = wrap(walk->next + stride, slots);
		stride = wrap(stride + walk->skip, slots);
	}
	for (uint32_t i = 0; i < ahead; i += LANES)
		for (int j = 0; j < LANES; j++) {
			slot[i + j] = lane[j];
			lane[j] = wrap(lane[j] + stride, slots);
		}
	walk->next = lane[0];
	for (uint32_t i = 0; i < ahead; i++) {
		candidates[found] = slot[i];
		found += is_free[slot[i]];
	}
	return found;
}

__attribute__((noinline)) static void refill(struct filling *filling,
					     uint32_t member)
{
	struct walk *walk = &filling->walks[member];
	uint32_t *first =
		filling->candidates + (size_t)member * (filling->ahead + 1);
	uint32_t found = look_ahead(walk, filling->slots, filling->is_free,
				    filling->ahead, first);

	first[found] = filling->slots;
	walk->candidate = first;
}

/* Take the turns of this round, at most `slots`. Fields are copied to locals,
 * as stores to is_free may alias anything. */
static void take_round(struct filling *filling, uint32_t slots)
{
	uint32_t turns = filling->turns, end = filling->slots;
	const uint16_t *whose = filling->whose;
	uint8_t *is_free = filling->is_free;
	struct walk *walks = filling->walks;
	uint16_t *out = filling->out;

	if (turns > slots)
		turns = slots;
	filling->left -= turns;
	filling->turn = turns;
	for (uint32_t turn = 0; turn < turns; turn++) {
		struct walk *walk = &walks[whose[turn]];
		uint32_t slot = *walk->candidate++;

		while (!is_free[slot]) {
			if (slot == end)
				refill(filling, whose[turn]);
			slot = *walk->candidate++;
		}
		is_free[slot] = 0;
		out[slot] = walk->value;
	}
}

/* Choose the number of steps so that others take about one candidate in 24
 * before its turn. */
static uint32_t steps_ahead(uint32_t slots, uint32_t count)
{
	uint32_t ahead = slots / (12 * count) / LANES * LANES;

	if (ahead < AHEAD_MIN)
		return AHEAD_MIN;
	return ahead < AHEAD_MAX ? ahead : AHEAD_MAX;
}

static int prepare(struct filling *filling,
		   const struct eligible_member *eligible)
{
	uint32_t count = filling->count, lightest = UINT32_MAX;

	filling->walks = malloc(count * sizeof(*filling->walks));
	filling->candidates = malloc((size_t)count * (filling->ahead + 1) *
				     sizeof(*filling->candidates));
	filling->whose = malloc(count * sizeof(*filling->whose));
	filling->is_free = malloc(filling->slots + 1);
	if (!filling->walks || !filling->candidates || !filling->whose ||
	    !filling->is_free)
		return -ENOMEM;
	memset(filling->is_free, 1, filling->slots);
	filling->is_free[filling->slots] = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct walk *walk = &filling->walks[i];

		*walk = (struct walk){
			.weight = eligible[i].weight,
			.value = eligible[i].value,
			.candidate = &filling->slots, /* none */
		};
		maglev_hashes(eligible[i].name, eligible[i].port,
			      filling->slots, &walk->next, &walk->skip);
		filling->whose[i] = i;
		if (walk->weight > filling->greatest)
			filling->greatest = walk->weight;
		if (walk->weight < lightest)
			lightest = walk->weight;
	}
	filling->equal = lightest == filling->greatest;
	return 0;
}

int maglev_fill(const struct eligible_member *eligible, uint32_t count,
		uint32_t slots, uint16_t *out)
{
	struct filling filling = {
		.count = count,
		.slots = slots,
		.left = slots,
		.out = out,
	};
	int status;

	if (!count) {
		memset(out, 0xff, slots * sizeof(*out));
		return 0;
	}
	filling.ahead = steps_ahead(slots, count);
	status = prepare(&filling, eligible);
	while (!status && filling.left > MAGLEV_LAST) {
		begin_round(&filling);
		take_round(&filling, filling.left - MAGLEV_LAST);
	}
	if (!status)
		status = maglev_last(&filling);
	free(filling.is_free);
	free(filling.whose);
	free(filling.candidates);
	free(filling.walks);
	return status;
}

bool is_prime(uint32_t number)
{
	if (number < 2)
		return false;
	for (uint32_t i = 2; (uint64_t)i * i <= number; i++)
		if (number % i == 0)
			return false;
	return true;
}
