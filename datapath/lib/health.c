// SPDX-License-Identifier: Apache-2.0
/*
 * Results of health checks.
 *
 * Which members carry a check is an index of this process, derived from all
 * live blocks when services or members have changed since: one pass over the
 * members of the node and a sort, about 10 ms for 100,000 members.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int by_check(const void *left, const void *right)
{
	const struct check_reference *a = left, *b = right;

	return (a->check > b->check) - (a->check < b->check);
}

static uint32_t collect(struct oxp_node *node, struct check_reference *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < node->config->services_max; i++) {
		const struct service_block *block = live_block(node, i);

		if (entry_of(node, i)->state != ENTRY_USED)
			continue;
		for (uint32_t j = 0; j < block->members; j++) {
			if (!block->member[j].check)
				continue;
			if (out)
				out[count] = (struct check_reference){
					block->member[j].check, i, j};
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

/* First member with this check or a greater one. */
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

/* One result for one member. */
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
		       const struct oxp_result *results, uint32_t count,
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

/* Tables are computed and switched in portions of this many, so that the
 * first do not wait for the last. */
#define PORTION 64

/* Services whose tables are to be computed. */
struct portion {
	struct oxp_node *node;
	uint32_t count;
	uint32_t service[PORTION];
};

static void compute(void *argument, uint32_t piece)
{
	struct portion *portion = argument;

	compute_slots(scratch_block(portion->node, portion->service[piece]));
}

static uint32_t finish(struct portion *portion)
{
	uint32_t count = portion->count;

	for_each(count, compute, portion);
	for (uint32_t i = 0; i < count; i++)
		switch_tables(portion->node, portion->service[i]);
	portion->count = 0;
	return count;
}

/*
 * Takes one service's results in. Where they do not change who takes traffic,
 * flags are written in place: packets do not read them. Otherwise the scratch
 * block gets the members, and its slots are to be computed.
 */
static int apply(struct portion *portion, const struct touch *touches,
		 uint32_t count, char *error)
{
	struct oxp_node *node = portion->node;
	uint32_t index = touches->service;
	struct service_block *live = live_block(node, index);
	struct service_block *next = scratch_block(node, index);
	uint8_t flags[OXP_MEMBERS_MAX];
	bool switches = false;
	int status;

	for (uint32_t i = 0; i < live->members; i++)
		flags[i] = live->member[i].flags;
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *flag = &flags[touches[i].member];

		*flag |= MEMBER_KNOWN | MEMBER_HEALTHY;
		if (!touches[i].up)
			*flag &= ~MEMBER_HEALTHY;
	}
	for (uint32_t i = 0; i < live->members; i++) {
		struct block_member member = live->member[i];

		member.flags = flags[i];
		switches |= takes_traffic(&member) !=
			    takes_traffic(&live->member[i]);
	}
	if (!switches) {
		for (uint32_t i = 0; i < live->members; i++)
			live->member[i].flags = flags[i];
		return 0;
	}

	status = free_scratch(node, index, error);
	if (status)
		return status;
	next->slots = live->slots;
	next->members = live->members;
	memcpy(next->member, live->member,
	       live->members * sizeof(*live->member));
	for (uint32_t i = 0; i < live->members; i++)
		next->member[i].flags = flags[i];
	portion->service[portion->count++] = index;
	return 0;
}

static int apply_touches(struct oxp_node *node, const struct touch *touch,
			 uint32_t touches, char *error)
{
	struct portion portion = {.node = node};
	int switched = 0, status = 0;
	uint32_t end;

	for (uint32_t start = 0; start < touches && !status; start = end) {
		end = start + 1;
		while (end < touches &&
		       touch[end].service == touch[start].service)
			end++;
		status = apply(&portion, &touch[start], end - start, error);
		if (portion.count == PORTION)
			switched += finish(&portion);
	}
	switched += finish(&portion);
	return status ? status : switched;
}

static int apply_all(struct oxp_node *node, const struct oxp_result *results,
		     uint32_t count, char *error)
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

int oxp_health_apply(struct oxp_node *node, const struct oxp_result *results,
		     uint32_t count, char *error)
{
	int status = lock_node(node, error);

	if (status)
		return status;
	status = apply_all(node, results, count, error);
	unlock_node(node);
	return status;
}
