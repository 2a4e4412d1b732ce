// SPDX-License-Identifier: Apache-2.0
/*
 * Computing the tables of many services. Services with the same eligible
 * members (names, weights) and number of slots share one computation, which
 * numbers members in the order of their addresses; each service then translates
 * the numbers to its own members' places.
 */
#include "table/rebuild.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parallel.h"
#include "state.h"
#include "table/maglev.h"
#include "table/members.h"
#include "table/slot_transition.h"

struct eligible {
	uint32_t count;
	struct eligible_member member[OXP_MEMBERS_MAX];
	uint16_t owner_of[OXP_MEMBERS_MAX];
};

static void collect(const struct service_block *block, struct eligible *out)
{
	uint16_t sorted[OXP_MEMBERS_MAX];
	uint32_t count = sorted_members(block, sorted);

	out->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct block_member *member = &block->member[sorted[i]];

		if (!(member->flags & MEMBER_TAKES_FLOWS))
			continue;
		out->owner_of[out->count] = sorted[i];
		out->member[out->count] = (struct eligible_member){
			.name = (const uint8_t *)member->address,
			.port = name_port(block, sorted, i),
			.weight = member->weight,
			.value = out->count,
		};
		out->count++;
	}
	if (!out->count)
		out->owner_of[0] = SLOT_NOBODY;
}

/* Fill in numbers of eligible members. Without members: 0, for SLOT_NOBODY. */
static int fill(const struct eligible *eligible, uint32_t slots, uint16_t *out)
{
	if (eligible->count)
		return maglev_fill(eligible->member, eligible->count, slots,
				   out);
	memset(out, 0, slots * sizeof(*out));
	return 0;
}

int compute_owners(const struct service_block *block, uint16_t *out)
{
	struct eligible eligible;

	collect(block, &eligible);
	if (fill(&eligible, block->slots, out))
		return -ENOMEM;
	for (uint32_t i = 0; i < block->slots; i++)
		out[i] = eligible.owner_of[out[i]];
	return 0;
}

/* Equal for equal eligible members, whatever their places. */
static uint64_t hash_of(const struct service_block *block)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < block->members; i++) {
		const struct block_member *member = &block->member[i];
		uint64_t half[2];

		if (!(member->flags & MEMBER_TAKES_FLOWS))
			continue;
		memcpy(half, member->address, sizeof(half));
		half[0] = (half[0] ^ half[1] * 0xff51afd7ed558ccdULL ^
			   member->weight) *
			  0xc4ceb9fe1a85ec53ULL;
		sum += half[0] ^ half[0] >> 31; /* independent of their order */
	}
	return sum ^ (uint64_t)block->slots << 44;
}

static bool is_equal(const struct service_block *a,
		     const struct service_block *b)
{
	struct eligible left, right;

	if (a->slots != b->slots || a->enabled != b->enabled)
		return false;
	collect(a, &left);
	collect(b, &right);
	for (uint32_t i = 0; i < left.count; i++)
		if (left.member[i].weight != right.member[i].weight ||
		    left.member[i].port != right.member[i].port ||
		    memcmp(left.member[i].name, right.member[i].name, 16))
			return false;
	return true;
}

static int by_hash(const void *left, const void *right)
{
	const struct rebuild_job *a = left, *b = right;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return (a->index > b->index) - (a->index < b->index);
}

struct portion {
	struct oxp_node *node;
	struct rebuild_job *jobs;
	const struct rebuild_job **first; /* by group */
	uint16_t *tables;                 /* by group */
	size_t table_length;
	int status;
};

static void compute(void *argument, uint32_t piece)
{
	struct portion *portion = argument;
	const struct service_block *block = portion->first[piece]->next;
	struct eligible eligible;

	collect(block, &eligible);
	if (fill(&eligible, block->slots,
		 portion->tables + piece * portion->table_length))
		__atomic_store_n(&portion->status, -ENOMEM, __ATOMIC_RELAXED);
}

static void translate(void *argument, uint32_t piece)
{
	const struct portion *portion = argument;
	const struct rebuild_job *job = &portion->jobs[piece];
	struct eligible eligible;

	collect(job->next, &eligible);
	transition(portion->node, job->index, job->next, job->old,
		   portion->tables + job->group * portion->table_length,
		   eligible.owner_of);
}

/* Compute this many tables, then switch their services: the first need not wait
 * for the last, and the tables stay in the cache. */
#define PORTION 64

static uint32_t next_portion(struct rebuild_job *jobs, uint32_t count,
			     const struct rebuild_job **first, uint32_t *groups)
{
	uint32_t i;

	*groups = 0;
	for (i = 0; i < count; i++) {
		if (!i || jobs[i].hash != jobs[i - 1].hash ||
		    !is_equal(jobs[i].next, jobs[i - 1].next)) {
			if (*groups == PORTION)
				break;
			first[(*groups)++] = &jobs[i];
		}
		jobs[i].group = *groups - 1;
	}
	return i;
}

int rebuild(struct oxp_node *node, struct rebuild_job *jobs, uint32_t count,
	    void (*finished)(void *context, const struct rebuild_job *job),
	    void *context)
{
	const struct rebuild_job *first[PORTION];
	struct portion portion = {
		.node = node,
		.jobs = jobs,
		.first = first,
	};
	uint32_t most = count < PORTION ? count : PORTION, groups, length;

	if (!count)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		if (portion.table_length < jobs[i].next->slots)
			portion.table_length = jobs[i].next->slots;
	portion.table_length = (portion.table_length + 31) / 32 * 32;
	portion.tables = aligned_alloc(64, most * portion.table_length *
						   sizeof(*portion.tables));
	if (!portion.tables)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		jobs[i].hash = hash_of(jobs[i].next);
	qsort(jobs, count, sizeof(*jobs), by_hash);
	for (; count; count -= length, portion.jobs += length) {
		length = next_portion(portion.jobs, count, first, &groups);
		run_in_parallel(groups, 4, compute, &portion);
		if (portion.status)
			break;
		run_in_parallel(length, 16, translate, &portion);
		for (uint32_t i = 0; i < length; i++)
			finished(context, &portion.jobs[i]);
	}
	free(portion.tables);
	return portion.status;
}
