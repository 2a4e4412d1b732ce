/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_MEMBERS_H
#define OXP_TABLE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Words of a bitmap of places. */
#define PLACE_WORDS (OXP_MEMBERS_MAX / 64)

/* Set the computed flags. Returns how many members take flows. */
uint32_t compute_flags(struct block_member *members, uint32_t places);

/* Whether both have the same address and port. */
bool is_same_member(const struct block_member *a, const struct block_member *b);

/* Whether a member continues the flows of the other one at its place: it is the
 * same member, or the same address where one of them has no port. */
bool takes_over(const struct block_member *a, const struct block_member *b);

/* Returns the port in the name of the member sorted[position]: 0 for the lowest
 * port of an address, so that the name of a single member is the same with and
 * without a port. */
uint16_t name_port(const struct service_block *block, const uint16_t *sorted,
		   uint32_t position);

/* Returns the member's own tunnel, or all zeroes. */
void tunnel_of(const struct block_member *member, struct oxp_tunnel *out);

/* FNV-1a over places, addresses, ports, tunnels, checks, weights, MTUs and
 * flags, by words of 64 bits. Nobody gains from causing a collision. */
uint64_t hash_members(const struct service_block *block);

/* Sort indices of present members by address, then port. Returns the count. */
uint32_t sorted_members(const struct service_block *block, uint16_t *out);

/* Give the members of `draft`, from place 0 on, the places that they have in
 * `old` or free ones, and the state to keep. new_places[]: bits of new members'
 * places. */
void place_members(struct service_block *draft, const struct service_block *old,
		   uint64_t new_places[PLACE_WORDS]);

#endif
