// SPDX-License-Identifier: Apache-2.0
/*
 * The lookup tables that packets search: see struct bucket_v4. Overflow counts
 * are never too low, whenever a packet reads them and wherever a process dies:
 * they grow before a key appears and shrink after it is gone.
 */
#include "table/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "state.h"

struct lookup_key lookup_key(const void *vip, __be16 port, uint8_t protocol)
{
	struct lookup_key key = {
		.v6 = !is_v4(vip),
		.ports = lookup_ports(port, protocol),
	};

	memcpy(key.address, vip, sizeof(key.address));
	return key;
}

static uint64_t word_v4(const struct lookup_key *key)
{
	return (uint64_t)key->ports << 32 | key->address[3];
}

static uint32_t home_of(const struct oxp_node *node,
			const struct lookup_key *key)
{
	uint64_t seed = node->config->seed;
	uint32_t hash = key->v6 ? bucket_of_v6(key->address, key->ports, seed)
				: bucket_of_v4(word_v4(key), seed);

	return hash & node->config->lookup_mask;
}

static bool is_used(struct oxp_node *node, bool v6, uint32_t bucket,
		    uint32_t way)
{
	return v6 ? node->lookup_v6[bucket].ports[way]
		  : node->lookup_v4[bucket].key[way] != 0;
}

static uint32_t *overflow_of(struct oxp_node *node, bool v6, uint32_t bucket)
{
	return v6 ? &node->lookup_v6[bucket].overflow
		  : &node->lookup_v4[bucket].overflow;
}

uint32_t *lookup_value(struct oxp_node *node, bool v6, uint32_t place)
{
	uint32_t bucket = place / BUCKET_WAYS, way = place % BUCKET_WAYS;

	return v6 ? &node->lookup_v6[bucket].value[way]
		  : &node->lookup_v4[bucket].value[way];
}

uint32_t lookup_places(const struct oxp_node *node)
{
	return (node->config->lookup_mask + 1) * BUCKET_WAYS;
}

bool lookup_holds(struct oxp_node *node, const struct lookup_key *key,
		  uint32_t place)
{
	uint32_t bucket = place / BUCKET_WAYS, way = place % BUCKET_WAYS;
	const struct bucket_v6 *v6 = &node->lookup_v6[bucket];

	if (place >= lookup_places(node))
		return false;
	if (!key->v6)
		return node->lookup_v4[bucket].key[way] == word_v4(key);
	return v6->ports[way] == key->ports &&
	       !memcmp(v6->address[way], key->address, sizeof(key->address));
}

int64_t lookup_find(struct oxp_node *node, const struct lookup_key *key)
{
	uint32_t bucket = home_of(node, key);

	for (int i = 0; i < HASH_PROBES; i++) {
		for (int way = 0; way < BUCKET_WAYS; way++) {
			uint32_t place = bucket * BUCKET_WAYS + way;

			if (lookup_holds(node, key, place))
				return place;
		}
		if (!*overflow_of(node, key->v6, bucket))
			break;
		bucket = (bucket + 1) & node->config->lookup_mask;
	}
	return -ENOENT;
}

/* Adjust all buckets from a key's home to the one before its own. */
static void count_overflow(struct oxp_node *node, const struct lookup_key *key,
			   uint32_t own, int32_t difference)
{
	uint32_t bucket = home_of(node, key);

	while (bucket != own) {
		__atomic_fetch_add(overflow_of(node, key->v6, bucket),
				   difference, __ATOMIC_RELEASE);
		bucket = (bucket + 1) & node->config->lookup_mask;
	}
}

static int64_t free_place(struct oxp_node *node, const struct lookup_key *key)
{
	uint32_t bucket = home_of(node, key);

	for (int i = 0; i < HASH_PROBES; i++) {
		for (int way = 0; way < BUCKET_WAYS; way++)
			if (!is_used(node, key->v6, bucket, way))
				return bucket * BUCKET_WAYS + way;
		bucket = (bucket + 1) & node->config->lookup_mask;
	}
	return -ENOSPC;
}

int64_t lookup_insert(struct oxp_node *node, const struct lookup_key *key,
		      uint32_t value)
{
	int64_t place = free_place(node, key);
	uint32_t bucket, way;

	if (place < 0)
		return place;
	bucket = place / BUCKET_WAYS;
	way = place % BUCKET_WAYS;
	count_overflow(node, key, bucket, 1);
	*lookup_value(node, key->v6, place) = value;
	if (key->v6) {
		struct bucket_v6 *v6 = &node->lookup_v6[bucket];

		memcpy(v6->address[way], key->address, sizeof(key->address));
		__atomic_store_n(&v6->ports[way], key->ports, __ATOMIC_RELEASE);
	} else {
		__atomic_store_n(&node->lookup_v4[bucket].key[way],
				 word_v4(key), __ATOMIC_RELEASE);
	}
	return place;
}

static void clear(struct oxp_node *node, bool v6, uint32_t place)
{
	uint32_t bucket = place / BUCKET_WAYS, way = place % BUCKET_WAYS;

	if (v6)
		__atomic_store_n(&node->lookup_v6[bucket].ports[way], 0,
				 __ATOMIC_RELEASE);
	else
		__atomic_store_n(&node->lookup_v4[bucket].key[way], 0,
				 __ATOMIC_RELEASE);
}

void lookup_erase(struct oxp_node *node, const struct lookup_key *key,
		  uint32_t place)
{
	clear(node, key->v6, place);
	count_overflow(node, key, place / BUCKET_WAYS, -1);
}

static struct lookup_key key_at(struct oxp_node *node, bool v6, uint32_t place)
{
	uint32_t bucket = place / BUCKET_WAYS, way = place % BUCKET_WAYS;
	struct lookup_key key = {.v6 = v6};

	if (v6) {
		key.ports = node->lookup_v6[bucket].ports[way];
		memcpy(key.address, node->lookup_v6[bucket].address[way],
		       sizeof(key.address));
	} else {
		key.ports = node->lookup_v4[bucket].key[way] >> 32;
		key.address[3] = node->lookup_v4[bucket].key[way];
	}
	return key;
}

/* Compute what the overflow counts should be. */
static uint32_t *recount(struct oxp_node *node, bool v6, uint32_t *keys)
{
	uint32_t mask = node->config->lookup_mask;
	uint32_t *counts = calloc((size_t)mask + 1, sizeof(*counts));

	for (uint32_t place = 0; counts && place < lookup_places(node);
	     place++) {
		struct lookup_key key = key_at(node, v6, place);
		uint32_t bucket;

		if (!key.ports)
			continue;
		++*keys;
		bucket = home_of(node, &key);
		for (int i = 0;
		     i < HASH_PROBES && bucket != place / BUCKET_WAYS;
		     i++, bucket = (bucket + 1) & mask)
			counts[bucket]++;
	}
	return counts;
}

int lookup_repair(struct oxp_node *node, const uint64_t *keep[2])
{
	for (int v6 = 0; v6 < 2; v6++) {
		uint32_t keys = 0, *counts;

		for (uint32_t i = 0; i < lookup_places(node); i++)
			if (is_used(node, v6, i / BUCKET_WAYS,
				    i % BUCKET_WAYS) &&
			    !(keep[v6][i / 64] >> i % 64 & 1))
				clear(node, v6, i);
		counts = recount(node, v6, &keys);
		if (!counts)
			return -ENOMEM;
		for (uint32_t i = 0; i <= node->config->lookup_mask; i++)
			__atomic_store_n(overflow_of(node, v6, i), counts[i],
					 __ATOMIC_RELEASE);
		free(counts);
	}
	return 0;
}

int lookup_check(struct oxp_node *node, uint32_t *keys)
{
	int wrong = 0;

	*keys = 0;
	for (int v6 = 0; v6 < 2; v6++) {
		uint32_t *counts = recount(node, v6, keys);

		if (!counts)
			return -ENOMEM;
		for (uint32_t i = 0; i <= node->config->lookup_mask; i++)
			wrong += *overflow_of(node, v6, i) != counts[i];
		free(counts);
	}
	return wrong;
}
