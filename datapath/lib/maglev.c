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
 * Most of the paper's steps go to the last few slots: with f of M free, a
 * member looks at M / f slots until it finds one. So once few are free, the
 * question is turned round: when does each member come by each free slot?
 * The next slot of a member is the one with the least time, and the inverse
 * of the permutation gives the times.
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

void maglev_hashes(const uint8_t *name, uint32_t slots, uint32_t *offset,
		   uint32_t *skip)
{
	*offset = name_hash(name, OFFSET_SEED) % slots;
	*skip = name_hash(name, SKIP_SEED) % (slots - 1) + 1;
}

/* How many slots ahead a walk looks at once: where it has to stop is chance,
 * and a branch that the processor cannot foresee costs more than these. */
#define AHEAD 6

/* One member's walk over its permutation. */
struct walk {
	uint32_t next;            /* slot that it looks at next */
	uint32_t skip[AHEAD + 1]; /* 0, 1, 2 … steps, modulo slots */
	uint32_t weight;
	uint32_t credit; /* r * weight mod w_max */
	uint16_t value;
};

static inline uint32_t wrap(uint32_t slot, uint32_t slots)
{
	uint32_t wrapped = slot - slots;

	return wrapped < slot ? wrapped : slot;
}

static inline void take_next(struct walk *walk, uint32_t slots, uint16_t *out)
{
	for (;;) {
		uint32_t free = 0, slot[AHEAD], which;

		for (int i = 0; i < AHEAD; i++) {
			slot[i] = wrap(walk->next + walk->skip[i], slots);
			free |= (uint32_t)(out[slot[i]] == OXP_NO_MEMBER) << i;
		}
		if (!free) {
			walk->next =
				wrap(walk->next + walk->skip[AHEAD], slots);
			continue;
		}
		which = __builtin_ctz(free);
		out[slot[which]] = walk->value;
		walk->next = wrap(walk->next + walk->skip[which + 1], slots);
		return;
	}
}

/* Whether the member has a turn in this round. */
static bool has_turn(struct walk *walk, uint32_t greatest)
{
	walk->credit += walk->weight;
	if (walk->credit < greatest)
		return false;
	walk->credit -= greatest;
	return true;
}

#define FEW 384 /* slots */

/* The last free slots. time[i] is, for one member, when it comes by slot
 * which[i], and i below it: the least of them is its next slot. */
struct finish {
	uint32_t left;
	uint32_t which[FEW];
	uint32_t position[FEW]; /* of i in every time[] */
	uint32_t (*time)[FEW];  /* of each member */
};

/* a * result = 1 modulo a prime: Euclid. */
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

static void find_times(struct finish *finish, const struct walk *walks,
		       uint32_t count, uint32_t slots)
{
	/* n / slots for n below 2^40: multiplication by the reciprocal is at
	 * most one too low */
	uint64_t reciprocal = UINT64_MAX / slots;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t back = inverse(walks[i].skip[1], slots);
		uint32_t *time = finish->time[i];

		for (uint32_t j = 0; j < finish->left; j++) {
			uint32_t ahead =
				finish->which[j] >= walks[i].next
					? finish->which[j] - walks[i].next
					: finish->which[j] + slots -
						  walks[i].next;
			uint64_t n = ahead * back;
			uint64_t rest = n - (uint64_t)((unsigned __int128)n *
							       reciprocal >>
						       64) *
						    slots;

			if (rest >= slots)
				rest -= slots;
			time[j] = rest * FEW + j; /* below 2^29 */
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

static void take_last(struct finish *finish, uint32_t member, uint32_t count,
		      uint16_t value, uint16_t *out)
{
	uint32_t taken = least(finish->time[member], finish->left) % FEW;
	uint32_t hole = finish->position[taken], last = --finish->left;

	out[finish->which[taken]] = value;
	if (hole == last)
		return;
	finish->position[finish->time[0][last] % FEW] = hole;
	for (uint32_t i = 0; i < count; i++)
		finish->time[i][hole] = finish->time[i][last];
}

static void fill(struct walk *walks, uint32_t count, uint32_t slots,
		 uint32_t greatest, struct finish *finish, uint16_t *out)
{
	uint32_t left = slots, i = 0;

	for (; left > finish->left; i = i + 1 < count ? i + 1 : 0) {
		if (!has_turn(&walks[i], greatest))
			continue;
		take_next(&walks[i], slots, out);
		left--;
	}
	finish->left = 0;
	for (uint32_t slot = 0; slot < slots && left; slot++)
		if (out[slot] == OXP_NO_MEMBER) {
			finish->position[finish->left] = finish->left;
			finish->which[finish->left++] = slot;
		}
	find_times(finish, walks, count, slots);
	for (; finish->left; i = i + 1 < count ? i + 1 : 0)
		if (has_turn(&walks[i], greatest))
			take_last(finish, i, count, walks[i].value, out);
}

int maglev_fill(const struct taker *takers, uint32_t count, uint32_t slots,
		uint16_t *out)
{
	struct finish finish = {.left = slots < FEW ? slots : FEW};
	uint32_t greatest = 0;
	struct walk *walks;

	memset(out, 0xff, slots * sizeof(*out));
	if (!count)
		return 0;
	walks = calloc(count, sizeof(*walks));
	finish.time = calloc(count, sizeof(*finish.time));
	if (!walks || !finish.time) {
		free(walks);
		free(finish.time);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		walks[i] = (struct walk){
			.weight = takers[i].weight,
			.value = takers[i].value,
		};
		maglev_hashes(takers[i].name, slots, &walks[i].next,
			      &walks[i].skip[1]);
		for (int j = 2; j <= AHEAD; j++)
			walks[i].skip[j] = wrap(
				walks[i].skip[j - 1] + walks[i].skip[1], slots);
		if (takers[i].weight > greatest)
			greatest = takers[i].weight;
	}
	fill(walks, count, slots, greatest, &finish, out);
	free(walks);
	free(finish.time);
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
