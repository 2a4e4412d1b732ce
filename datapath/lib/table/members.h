/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXP_TABLE_MEMBERS_H
#define OXP_TABLE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Of bits, one for each place. */
#define PLACE_WORDS (OXP_MEMBERS_MAX / 64)

/* Sets the computed flags; returns how many take flows. */
uint32_t compute_flags(struct block_member *members, uint32_t places);

/* Whether both have one address and one port. */
bool is_same_member(const struct block_member *a, const struct block_member *b);

/* Whether one that is in the other's place goes on with its flows: the same
 * member, or the same host where one of them has no port, as before there were
 * any. */
bool takes_over(const struct block_member *a, const struct block_member *b);

/* What of the port of the member sorted[position] is a part of its name: 0 of
 * an address's lowest one, so that names of addresses that are there once are
 * what they are without ports. */
uint16_t name_port(const struct service_block *block, const uint16_t *sorted,
		   uint32_t position);

/* The member's own tunnel, or all zeroes. */
void tunnel_of(const struct block_member *member, struct oxp_tunnel *out);

/* FNV-1a over places, addresses, ports, tunnels, checks, weights, MTUs and
 * flags, by words of 64 bits. Who can choose them gains nothing by a collision.
 */
uint64_t hash_members(const struct service_block *block);

/* Indices of the present members in the order of addresses, then of ports. */
uint32_t sorted_members(const struct service_block *block, uint16_t *out);

/* Gives the members of `draft`, places 0 on, the places that they have in
 * `old` or free ones, and what stays of their state. new_places[]: bits of
 * those that were not there. */
void place_members(struct service_block *draft, const struct service_block *old,
		   uint64_t new_places[PLACE_WORDS]);

#endif
