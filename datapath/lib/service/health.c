// SPDX-License-Identifier: Apache-2.0
/*
 * Applying results of health checks.
 *
 * The index from checks to members belongs to this process. It is derived from
 * all live blocks whenever services or members have changed: one pass over the
 * node's members and a sort, about 10 ms for 100,000 members.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "node/lock.h"
#include "state.h"
#include "table/blocks.h"
#include "table/members.h"
#include "table/rebuild.h"
#include "table/slot_transition.h"

static int by_check(const void *left, const void *right)
{
	const struct check_reference *a = left, *b = right;

	return (a->check > b->check) - (a->check < b->check);
}

static uint32_t collect(struct oxp_node *node, struct check_reference *out)
{
	uint32_t count = 0;

	FOR_EACH_SERVICE(node, i) {
		const struct service_block *block = live_block(node, i);

		for (uint32_t j = 0; j < block->members; j++) {
			const struct block_member *member = &block->member[j];

			if (!(member->flags & MEMBER_PRESENT) || !member->check)
				continue;
			if (out)
				out[count] = (struct check_reference){
					member->check, i, j};
			count++;
		}
	}
	return count;
}

static int derive_checks(struct oxp_node *node)
{
	struct check_reference *checks;
	uint32_t count;

	if (node->checks_changes == node->config->changes)
		return 0;
	count = collect(node, NULL);
	checks = calloc(count + 1, sizeof(*checks));
	if (!checks)
		return -ENOMEM;
	collect(node, checks);
	qsort(checks, count, sizeof(*checks), by_check);
	free(node->checks);
	node->checks = checks;
	node->checks_count = count;
	node->checks_changes = node->config->changes;
	return 0;
}

/* Returns the first member whose check has this id or a greater one. */
static uint32_t first_reference(const struct oxp_node *node, uint64_t check)
{
	uint32_t low = 0, high = node->checks_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (node->checks[middle].check < check)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct touch {
	uint32_t service;
	uint32_t member;
	uint32_t order;
	uint8_t up;
};

static int by_service(const void *left, const void *right)
{
	const struct touch *a = left, *b = right;

	if (a->service != b->service)
		return a->service < b->service ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

static uint32_t spread(const struct oxp_node *node,
		       const struct oxp_health_result *results, uint32_t count,
		       struct touch *out)
{
	uint32_t touches = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = first_reference(node, results[i].check);

		for (; at < node->checks_count &&
		       node->checks[at].check == results[i].check;
		     at++) {
			if (out)
				out[touches] =
					(struct touch){node->checks[at].service,
						       node->checks[at].member,
						       i, results[i].up};
			touches++;
		}
	}
	return touches;
}

struct batch {
	struct oxp_node *node;
	struct rebuild_job *jobs;
	uint32_t count;
	int switched;
};

static void finish(void *context, const struct rebuild_job *job)
{
	struct batch *batch = context;

	switch_tables(batch->node, job->index);
	batch->switched++;
}

static uint8_t with_health(uint8_t flags, bool up)
{
	flags |= MEMBER_KNOWN | MEMBER_HEALTHY;
	return up ? flags : flags & ~MEMBER_HEALTHY;
}

/*
 * Apply the results of one service. If they change nothing that packets read,
 * write the flags in place. Otherwise copy the members to the scratch block,
 * whose slots must then be computed.
 */
static int apply(struct batch *batch, const struct touch *touches,
		 uint32_t count, char *error)
{
	const uint8_t computed = MEMBER_KEEPS_FLOWS | MEMBER_TAKES_FLOWS;
	struct oxp_node *node = batch->node;
	uint32_t index = touches->service, enabled;
	struct service_block *live = live_block(node, index), *next;
	union draft draft;
	struct block_member *members = draft.block.member;
	bool switches = false;
	int status;

	memcpy(members, live->member, live->members * sizeof(*members));
	for (uint32_t i = 0; i < count; i++) {
		struct block_member *member = &members[touches[i].member];

		member->flags = with_health(member->flags, touches[i].up);
	}
	enabled = compute_flags(members, live->members);
	for (uint32_t i = 0; i < live->members; i++)
		switches |=
			(members[i].flags ^ live->member[i].flags) & computed;
	if (!switches) {
		for (uint32_t i = 0; i < live->members; i++)
			live->member[i].flags = members[i].flags;
		return 0;
	}
	status = free_scratch(node, index, error);
	if (status)
		return status;
	draft.block = *live;
	draft.block.enabled = enabled;
	status = write_scratch(
		node, index, &draft.block, live,
		next_before_slots(node, index, &draft.block, live), &next,
		error);
	if (status)
		return status;
	batch->jobs[batch->count++] = (struct rebuild_job){
		.index = index,
		.next = next,
		.old = live,
	};
	return 0;
}

static int apply_touches(struct oxp_node *node, const struct touch *touch,
			 uint32_t touches, char *error)
{
	struct batch batch = {.node = node};
	int status = 0, rebuilt;
	uint32_t end;

	batch.jobs = calloc((size_t)touches + 1, sizeof(*batch.jobs));
	if (!batch.jobs)
		return failure(error, -ENOMEM, "cannot apply results");
	for (uint32_t start = 0; start < touches && !status; start = end) {
		end = start + 1;
		while (end < touches &&
		       touch[end].service == touch[start].service)
			end++;
		status = apply(&batch, &touch[start], end - start, error);
	}
	rebuilt = rebuild(node, batch.jobs, batch.count, finish, &batch);
	free(batch.jobs);
	if (status)
		return status;
	return rebuilt ? failure(error, rebuilt, "cannot compute the tables")
		       : batch.switched;
}

static int apply_all(struct oxp_node *node,
		     const struct oxp_health_result *results, uint32_t count,
		     char *error)
{
	struct touch *touch;
	uint32_t touches;
	int status;

	if (derive_checks(node))
		return failure(error, -ENOMEM, "cannot index the checks");
	touches = spread(node, results, count, NULL);
	touch = calloc(touches + 1, sizeof(*touch));
	if (!touch)
		return failure(error, -ENOMEM, "cannot apply results");
	spread(node, results, count, touch);
	qsort(touch, touches, sizeof(*touch), by_service);
	status = apply_touches(node, touch, touches, error);
	free(touch);
	return status;
}

int oxp_health_apply(struct oxp_node *node,
		     const struct oxp_health_result *results, uint32_t count,
		     char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	status = apply_all(node, results, count, error);
	unlock_node(node);
	return status;
}
