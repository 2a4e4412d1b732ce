// SPDX-License-Identifier: Apache-2.0
/* Members of a block: which keep or take flows, and their places. */
#include "table/members.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "table/blocks.h"

static bool may_take(const struct block_member *member, uint8_t backup)
{
	const uint8_t up = MEMBER_PRESENT | MEMBER_ADMIN_UP | MEMBER_HEALTHY;

	return member->weight && (member->flags & up) == up &&
	       (member->flags & MEMBER_BACKUP) == backup;
}

uint32_t compute_flags(struct block_member *members, uint32_t places)
{
	const uint8_t up = MEMBER_PRESENT | MEMBER_ADMIN_UP | MEMBER_HEALTHY;
	uint32_t eligible = 0;
	uint8_t backup = MEMBER_BACKUP;

	for (uint32_t i = 0; i < places; i++)
		if (may_take(&members[i], 0))
			backup = 0;
	for (uint32_t i = 0; i < places; i++) {
		uint8_t flags = members[i].flags;

		flags &= ~(MEMBER_KEEPS_FLOWS | MEMBER_TAKES_FLOWS);
		if ((flags & up) == up)
			flags |= MEMBER_KEEPS_FLOWS;
		if (may_take(&members[i], backup)) {
			flags |= MEMBER_TAKES_FLOWS;
			eligible++;
		}
		members[i].flags = flags;
	}
	return eligible;
}

/* Half of the address, as a number that compares like its bytes. */
static uint64_t ordered_half(const struct block_member *member, int half)
{
	uint64_t word;

	memcpy(&word, (const char *)member->address + 8 * half, sizeof(word));
	return __builtin_bswap64(word);
}

/* Compares addresses only. */
static bool is_before_host(const struct block_member *a,
			   const struct block_member *b)
{
	uint64_t left = ordered_half(a, 0), right = ordered_half(b, 0);

	if (left != right)
		return left < right;
	return ordered_half(a, 1) < ordered_half(b, 1);
}

static bool is_less(const struct block_member *a, const struct block_member *b)
{
	uint64_t left = ordered_half(a, 0), right = ordered_half(b, 0);

	if (left != right)
		return left < right;
	left = ordered_half(a, 1);
	right = ordered_half(b, 1);
	if (left != right)
		return left < right;
	return ntohs(a->port) < ntohs(b->port);
}

static bool has_same_address(const struct block_member *a,
			     const struct block_member *b)
{
	return !memcmp(a->address, b->address, sizeof(a->address));
}

void tunnel_of(const struct block_member *member, struct oxp_tunnel *out)
{
	*out = (struct oxp_tunnel){};
	if (!member->tunnel)
		return;
	out->encapsulation = member->tunnel - 1;
	out->key = member->key;
	out->keeps_port = member->keeps_port;
	out->takes_alternative = member->takes_alternative;
	memcpy(out->address.bytes, member->outer, sizeof(out->address.bytes));
	/* the last 32 bits of the SID are the key */
	if (out->encapsulation == OXP_SRV6 && out->key)
		memset(out->address.bytes + 12, 0, 4);
}

bool is_same_member(const struct block_member *a, const struct block_member *b)
{
	return a->port == b->port && has_same_address(a, b);
}

bool takes_over(const struct block_member *a, const struct block_member *b)
{
	return (a->port == b->port || !a->port || !b->port) &&
	       has_same_address(a, b);
}

uint16_t name_port(const struct service_block *block, const uint16_t *sorted,
		   uint32_t position)
{
	const struct block_member *member = &block->member[sorted[position]];

	if (!position ||
	    !has_same_address(&block->member[sorted[position - 1]], member))
		return 0;
	return ntohs(member->port);
}

static void sift(const struct block_member *member, uint16_t *out,
		 uint32_t root, uint32_t count)
{
	for (;;) {
		uint32_t child = 2 * root + 1;
		uint16_t swap;

		if (child >= count)
			return;
		if (child + 1 < count &&
		    is_less(&member[out[child]], &member[out[child + 1]]))
			child++;
		if (!is_less(&member[out[root]], &member[out[child]]))
			return;
		swap = out[root];
		out[root] = out[child];
		out[child] = swap;
		root = child;
	}
}

uint32_t sorted_members(const struct service_block *block, uint16_t *out)
{
	uint32_t count = 0;
	bool sorted = true;

	for (uint32_t i = 0; i < places_of(block); i++) {
		if (!(block->member[i].flags & MEMBER_PRESENT))
			continue;
		if (count &&
		    !is_less(&block->member[out[count - 1]], &block->member[i]))
			sorted = false;
		out[count++] = i;
	}
	if (sorted)
		return count;
	/* heapsort: the comparison needs no context, and no case is bad */
	for (uint32_t i = count / 2; i--;)
		sift(block->member, out, i, count);
	for (uint32_t end = count; end > 1;) {
		uint16_t swap = out[--end];

		out[end] = out[0];
		out[0] = swap;
		sift(block->member, out, 0, end);
	}
	return count;
}

/* Health of a member that was there before (old) or is new (NULL). */
static uint8_t carried_health(const struct block_member *old, uint64_t check)
{
	if (!check)
		return MEMBER_HEALTHY;
	if (!old)
		return 0; /* must report first */
	if (old->check == check)
		return old->flags & (MEMBER_HEALTHY | MEMBER_KNOWN);
	/* keeps its health until the new check has reported */
	return old->flags & MEMBER_HEALTHY;
}

/* Give a member that stays, or takes over, the state of its place. */
static void put_in_place(struct service_block *draft,
			 const struct service_block *old, uint32_t place,
			 const struct block_member *member)
{
	const struct block_member *before = &old->member[place];
	struct block_member *out = &draft->member[place];

	*out = *member;
	out->counter = before->counter;
	out->flags |= carried_health(before, member->check);
}

/* Let pending members, in order, take over places of members that leave.
 * Returns how many remain pending. */
static uint32_t take_over_places(struct service_block *draft,
				 const struct service_block *old,
				 const struct block_member *from,
				 uint16_t *pending, uint32_t count,
				 const uint16_t *there, uint32_t old_count)
{
	uint32_t left = 0, j = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct block_member *member = &from[pending[i]];
		const struct block_member *before = NULL;

		for (; j < old_count; j++) {
			before = &old->member[there[j]];
			if (!(draft->member[there[j]].flags & MEMBER_PRESENT) &&
			    !is_before_host(before, member))
				break;
		}
		if (j < old_count && takes_over(before, member))
			put_in_place(draft, old, there[j++], member);
		else
			pending[left++] = pending[i];
	}
	return left;
}

void place_members(struct service_block *draft, const struct service_block *old,
		   uint64_t new_places[PLACE_WORDS])
{
	uint16_t wanted[OXP_MEMBERS_MAX], there[OXP_MEMBERS_MAX];
	struct block_member from[OXP_MEMBERS_MAX];
	uint32_t count = sorted_members(draft, wanted);
	uint32_t old_count = old ? sorted_members(old, there) : 0;
	uint32_t pending = 0, j = 0, places = 0, hole = 0;

	memcpy(from, draft->member, draft->members * sizeof(*from));
	memset(draft->member, 0,
	       (old && old->members > draft->members ? old->members
						     : draft->members) *
		       sizeof(*from));
	memset(new_places, 0, PLACE_WORDS * sizeof(*new_places));
	for (uint32_t i = 0; i < count; i++) {
		const struct block_member *member = &from[wanted[i]];

		while (j < old_count && is_less(&old->member[there[j]], member))
			j++;
		if (j == old_count || is_less(member, &old->member[there[j]]))
			wanted[pending++] = wanted[i];
		else
			put_in_place(draft, old, there[j], member);
	}
	pending = take_over_places(draft, old, from, wanted, pending, there,
				   old_count);
	for (uint32_t i = 0; old && i < old->members; i++)
		if (draft->member[i].flags & MEMBER_PRESENT)
			places = i + 1;
	for (uint32_t i = 0; i < pending; i++, hole++) {
		struct block_member *member = &from[wanted[i]];

		while (draft->member[hole].flags & MEMBER_PRESENT)
			hole++;
		member->flags |= carried_health(NULL, member->check);
		draft->member[hole] = *member;
		new_places[hole / 64] |= 1ULL << hole % 64;
		if (hole >= places)
			places = hole + 1;
	}
	draft->members = places;
	draft->enabled = compute_flags(draft->member, places);
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x100000001b3;
	/* in the product alone high bits would change only high bits */
	return hash ^ hash >> 32;
}

static uint64_t outer_half(const struct block_member *member, int half)
{
	uint64_t word;

	memcpy(&word, (const char *)member->outer + 8 * half, sizeof(word));
	return word;
}

uint64_t hash_members(const struct service_block *block)
{
	uint64_t hash = 0xcbf29ce484222325;
	uint32_t places = places_of(block);

	for (uint32_t i = 0; i < places; i++) {
		const struct block_member *member = &block->member[i];

		if (!(member->flags & MEMBER_PRESENT))
			continue;
		hash = mix(hash, ordered_half(member, 0));
		hash = mix(hash, ordered_half(member, 1) ^ member->port);
		hash = mix(hash, member->check);
		if (member->tunnel) {
			hash = mix(hash, outer_half(member, 0));
			hash = mix(hash, outer_half(member, 1));
			hash = mix(hash,
				   (uint64_t)member->takes_alternative << 41 |
					   (uint64_t)member->keeps_port << 40 |
					   (uint64_t)member->tunnel << 32 |
					   member->key);
		}
		hash = mix(hash,
			   (uint64_t)i << 40 | (uint64_t)member->weight << 24 |
				   (uint64_t)member->mtu << 8 | member->flags);
	}
	return hash;
}
