/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_LOOKUP_H
#define OXP_TABLE_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* `place` is BUCKET_WAYS * bucket + way, as in struct service_entry
 */
struct lookup_key {
	bool v6;
	uint32_t ports;
	__be32 address[4]; /* IPv4 in the last word */
};

struct lookup_key lookup_key(const void *vip, __be16 port, uint8_t protocol);

/* Returns a place or -ENOENT. */
int64_t lookup_find(struct oxp_node *node, const struct lookup_key *key);

/* Returns a place or -ENOSPC. */
int64_t lookup_insert(struct oxp_node *node, const struct lookup_key *key,
		      uint32_t value);

/* The place may be used again after a grace period. */
void lookup_erase(struct oxp_node *node, const struct lookup_key *key,
		  uint32_t place);

bool lookup_holds(struct oxp_node *node, const struct lookup_key *key,
		  uint32_t place);

uint32_t *lookup_value(struct oxp_node *node, bool v6, uint32_t place);

uint32_t lookup_places(const struct oxp_node *node);

/* Remove all keys except those at places with a bit in `keep`, and correct the
 * overflow counts. */
int lookup_repair(struct oxp_node *node, const uint64_t *keep[2]);

/* Returns how many overflow counts are wrong, and in *keys the number of
 * keys. */
int lookup_check(struct oxp_node *node, uint32_t *keys);

#endif
