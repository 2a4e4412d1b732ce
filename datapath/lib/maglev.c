// SPDX-License-Identifier: Apache-2.0
/*
 * Maglev hashing: Eisenbud et al., "Maglev: A Fast and Reliable Software
 * Network Load Balancer", NSDI 2016, section 3.4.
 *
 * A member's name is its address (16 bytes), so a table depends on the set of
 * members alone. The paper's two hash functions are 64-bit FNV-1a over the
 * name, started from two seeds and finished by MurmurHash3's fmix64. The
 * permutation is computed as it is walked, never stored.
 *
 * Weights are not in the paper. With w_max the greatest weight, in round r a
 * member takes its turn if floor((r + 1) * w / w_max) > floor(r * w / w_max):
 * equal weights give the paper's table.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define FNV_OFFSET 0xcbf29ce484222325ULL
#define FNV_PRIME 0x100000001b3ULL
#define OFFSET_SEED 0x6f66667365740001ULL /* "offset" */
#define SKIP_SEED 0x736b697000000002ULL   /* "skip" */

static uint64_t name_hash(const uint8_t *name, uint64_t seed)
{
	uint64_t hash = FNV_OFFSET ^ seed;

	for (int i = 0; i < 16; i++)
		hash = (hash ^ name[i]) * FNV_PRIME;
	hash ^= hash >> 33;
	hash *= 0xff51afd7ed558ccdULL;
	hash ^= hash >> 33;
	hash *= 0xc4ceb9fe1a85ec53ULL;
	hash ^= hash >> 33;
	return hash;
}

/* One member's walk over its permutation. */
struct walk {
	uint32_t next; /* slot that it looks at next */
	uint32_t skip;
	uint32_t weight;
	uint32_t credit; /* r * weight mod w_max */
	uint16_t value;
};

static void take_next(struct walk *walk, uint32_t slots, uint16_t *out)
{
	uint32_t slot = walk->next;

	while (out[slot] != OXP_NO_MEMBER) {
		slot += walk->skip;
		if (slot >= slots)
			slot -= slots;
	}
	out[slot] = walk->value;
	slot += walk->skip;
	walk->next = slot >= slots ? slot - slots : slot;
}

static void fill(struct walk *walks, uint32_t count, uint32_t slots,
		 uint32_t greatest, uint16_t *out)
{
	for (uint32_t left = slots;;) {
		for (uint32_t i = 0; i < count; i++) {
			struct walk *walk = &walks[i];

			walk->credit += walk->weight;
			if (walk->credit < greatest)
				continue;
			walk->credit -= greatest;
			take_next(walk, slots, out);
			if (!--left)
				return;
		}
	}
}

int maglev_fill(const struct taker *takers, uint32_t count, uint32_t slots,
		uint16_t *out)
{
	struct walk few[OXP_MEMBERS_MAX], *walks = few;
	uint32_t greatest = 0;

	memset(out, 0xff, slots * sizeof(*out));
	if (!count)
		return 0;
	if (count > OXP_MEMBERS_MAX) {
		walks = calloc(count, sizeof(*walks));
		if (!walks)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *name = takers[i].name;

		walks[i] = (struct walk){
			.next = name_hash(name, OFFSET_SEED) % slots,
			.skip = name_hash(name, SKIP_SEED) % (slots - 1) + 1,
			.weight = takers[i].weight,
			.value = takers[i].value,
		};
		if (takers[i].weight > greatest)
			greatest = takers[i].weight;
	}
	fill(walks, count, slots, greatest, out);
	if (walks != few)
		free(walks);
	return 0;
}

static int by_name(const void *left, const void *right)
{
	const struct taker *a = left, *b = right;

	return memcmp(a->name, b->name, 16);
}

int oxp_maglev_build(const struct oxp_address *addresses,
		     const uint16_t *weights, uint32_t count, uint32_t slots,
		     uint16_t *out)
{
	struct taker *takers;
	uint32_t used = 0;
	int status;

	if (slots > OXP_SLOTS_LIMIT || !oxp_is_prime(slots) ||
	    count >= OXP_NO_MEMBER)
		return -EINVAL;
	takers = calloc(count ? count : 1, sizeof(*takers));
	if (!takers)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (weights[i])
			takers[used++] = (struct taker){
				.name = addresses[i].bytes,
				.weight = weights[i],
				.value = i,
			};
	qsort(takers, used, sizeof(*takers), by_name);
	status = maglev_fill(takers, used, slots, out);
	free(takers);
	return status;
}

uint8_t oxp_is_prime(uint32_t number)
{
	if (number < 2)
		return 0;
	for (uint32_t i = 2; (uint64_t)i * i <= number; i++)
		if (number % i == 0)
			return 0;
	return 1;
}
