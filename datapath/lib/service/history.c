// SPDX-License-Identifier: Apache-2.0
/*
 * Restoring earlier owners of slots from what other nodes have recorded:
 * compute the service's tables again, in this process's memory and from the
 * oldest on, each from the one before as when members change. The last one is
 * the service's own, with the members that take new flows now.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "node/lock.h"
#include "service/find.h"
#include "service/tick.h"
#include "state.h"
#include "table/blocks.h"
#include "table/counters.h"
#include "table/heads.h"
#include "table/maglev.h"
#include "table/rebuild.h"
#include "table/slot_transition.h"

/* A period with the same members; number 0 is the present, 1 the one before. */
struct era {
	uint32_t slots;
	uint32_t age_s; /* since it ended; 0: the present */
};

struct replay {
	struct oxp_node *node;
	uint32_t index;
	const struct service_block *live;
	const struct oxp_past_weight *past;
	uint32_t count;
	uint32_t eras; /* not counting the present */
	struct era *era;
	/* Of each past weight's member, else SLOT_NOBODY; behind the service's
	 * members, of one that was removed. Such members own slots in past eras
	 * alone: what others owned then depends on them. */
	uint16_t *place;
	uint32_t removed;
	uint16_t *owners;
	uint16_t *same; /* identity: each number at its own index */
};

static int check_history(const struct oxp_node *node,
			 const struct oxp_past_weight *past, uint32_t count,
			 char *error)
{
	if (count > OXP_HISTORY_MAX)
		return failure(error, -EINVAL, "%u past weights, at most %u",
			       count, OXP_HISTORY_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (past[i].weight > OXP_WEIGHT_MAX)
			return failure(error, -EINVAL,
				       "past weight %u: it is %u, at most %u",
				       i, past[i].weight, OXP_WEIGHT_MAX);
		if (i && past[i].age_s < past[i - 1].age_s)
			return failure(error, -EINVAL,
				       "past weight %u: the one before is "
				       "older",
				       i);
		if (past[i].slots > node->config->slots_max ||
		    (past[i].slots && !is_prime(past[i].slots)))
			return failure(error, -EINVAL,
				       "past weight %u: a table of %u slots, "
				       "wanted is a prime up to %u",
				       i, past[i].slots,
				       node->config->slots_max);
	}
	return 0;
}

static uint16_t find_place(const struct service_block *block,
			   const struct oxp_past_weight *past)
{
	for (uint32_t i = 0; i < places_of(block); i++) {
		const struct block_member *member = &block->member[i];

		if (member->flags & MEMBER_PRESENT &&
		    ntohs(member->port) == past->port &&
		    !memcmp(member->address, past->address.bytes, 16))
			return i;
	}
	return SLOT_NOBODY;
}

static bool has_same_name(const struct oxp_past_weight *a,
			  const struct oxp_past_weight *b)
{
	return a->port == b->port &&
	       !memcmp(&a->address, &b->address, sizeof(a->address));
}

/* The place of a member that was removed, for past weight `i`. */
static uint16_t find_removed(struct replay *replay, uint32_t i)
{
	const struct oxp_past_weight *past = &replay->past[i];
	uint32_t place = replay->live->members + replay->removed;

	for (uint32_t j = 0; j < i; j++)
		if (replay->place[j] != SLOT_NOBODY &&
		    has_same_name(&replay->past[j], past))
			return replay->place[j];
	if (!past->weight || place >= OXP_MEMBERS_MAX)
		return SLOT_NOBODY;
	replay->removed++;
	return place;
}

/* Find eras up to the first with another number of slots. */
static void find_eras(struct replay *replay)
{
	replay->era[0] = (struct era){.slots = replay->live->slots};
	for (uint32_t i = 0; i < replay->count; i++) {
		const struct oxp_past_weight *past = &replay->past[i];
		uint32_t slots =
			past->slots ? past->slots : replay->live->slots;

		if (!i || past->age_s != past[-1].age_s) {
			if (replay->era[replay->eras].slots !=
			    replay->live->slots)
				return;
			replay->era[++replay->eras] =
				(struct era){slots, past->age_s};
		}
		replay->place[i] = find_place(replay->live, past);
		if (replay->place[i] == SLOT_NOBODY)
			replay->place[i] = find_removed(replay, i);
	}
}

/* Let members take flows as they did in an era. */
static void go_back(const struct replay *replay, uint32_t era,
		    struct service_block *block)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < replay->count; i++) {
		const struct oxp_past_weight *past = &replay->past[i];
		struct block_member *member;

		if (!i || past->age_s != past[-1].age_s)
			number++;
		if (number > era)
			return;
		if (replay->place[i] == SLOT_NOBODY)
			continue;
		member = &block->member[replay->place[i]];
		member->weight = past->weight;
		member->flags &= ~MEMBER_TAKES_FLOWS;
		if (past->weight)
			member->flags |= MEMBER_TAKES_FLOWS;
	}
}

static void add_removed(const struct replay *replay,
			struct service_block *block)
{
	for (uint32_t i = 0; i < replay->count; i++) {
		const struct oxp_past_weight *past = &replay->past[i];
		struct block_member *member;

		if (replay->place[i] == SLOT_NOBODY ||
		    replay->place[i] < replay->live->members)
			continue;
		member = &block->member[replay->place[i]];
		memcpy(member->address, past->address.bytes, 16);
		member->port = htons(past->port);
		member->flags = MEMBER_PRESENT | MEMBER_KEEPS_FLOWS;
	}
}

/* Build the table of a past era in the form that transition() expects. */
static struct service_block *make_block(const struct replay *replay,
					uint32_t era,
					const struct service_block *old)
{
	const struct service_block *live = replay->live;
	size_t length = sizeof(*live) + live->members * sizeof(*live->member);
	struct service_block *block, head = *live;
	size_t lines;

	head.members += replay->removed;
	head.slot_width = head.members > NARROW_PLACES ? 2 : 1;
	head.slot_line = LINES_BEFORE_SLOTS(head.members);
	head.slots = replay->era[era].slots;
	head.flags &= ~(BLOCK_OPEN | BLOCK_LEARNING | BLOCK_CHANGED);
	head.before_slots =
		next_before_slots(replay->node, replay->index, &head, old);
	lines = lines_of_block(head.slots, head.members, head.before_slots,
			       head.flags & OXP_SERVICE_SECOND_CHANCE);
	block = aligned_alloc(LINE_SIZE, lines * LINE_SIZE);
	if (!block)
		return NULL;
	memset(block, 0, lines * LINE_SIZE);
	memcpy(block, live, length);
	*block = head;
	block->open = block->learning = 0;
	add_removed(replay, block);
	write_heads(block);
	go_back(replay, era, block);
	return block;
}

static int fill(struct replay *replay, uint32_t era, struct service_block *next,
		const struct service_block *old)
{
	if (compute_owners(next, replay->owners))
		return -ENOMEM;
	transition(replay->node, replay->index, next, old, replay->owners,
		   replay->same);
	if (era < replay->eras)
		pass_time(replay->node, next,
			  replay->era[era + 1].age_s - replay->era[era].age_s);
	return 0;
}

/* Write the present era to the scratch block and switch to it. */
static int write_now(struct replay *replay, const struct service_block *old,
		     char *error)
{
	const struct service_block *live = replay->live;
	struct oxp_node *node = replay->node;
	struct service_block *next;
	union draft draft;
	int status = free_scratch(node, replay->index, error);

	if (status)
		return status;
	memcpy(&draft, live,
	       sizeof(*live) + live->members * sizeof(*live->member));
	status = write_scratch(
		node, replay->index, &draft.block, live,
		next_before_slots(node, replay->index, &draft.block, old),
		&next, error);
	if (status)
		return status;
	if (fill(replay, 0, next, old))
		return failure(error, -ENOMEM, "cannot compute the table");
	/* otherwise the slots would close at once, as in a new service */
	next->flags |= BLOCK_USED;
	switch_tables(node, replay->index);
	return 1;
}

static int run(struct replay *replay, char *error)
{
	struct service_block *old = NULL;
	int status = 0;

	for (uint32_t era = replay->eras; era && !status; era--) {
		struct service_block *next = make_block(replay, era, old);

		status = next ? fill(replay, era, next, old) : -ENOMEM;
		free(old);
		old = next;
	}
	if (status)
		failure(error, status, "cannot compute earlier tables");
	else
		status = write_now(replay, old, error);
	free(old);
	return status;
}

static bool has_forwarded(struct oxp_node *node, uint32_t index)
{
	struct service_counts counts;

	read_service_counts(node, index, &counts);
	return counts.counters.packets;
}

static uint32_t most_slots(const struct replay *replay)
{
	uint32_t last = replay->era[replay->eras].slots;

	return last > replay->live->slots ? last : replay->live->slots;
}

static int apply(struct replay *replay, char *error)
{
	int status = -ENOMEM;

	replay->era = calloc(replay->count + 1, sizeof(*replay->era));
	replay->place = calloc(replay->count + 1, sizeof(*replay->place));
	replay->same = malloc((SLOT_NOBODY + 1) * sizeof(*replay->same));
	if (replay->era && replay->place && replay->same) {
		for (uint32_t i = 0; i <= SLOT_NOBODY; i++)
			replay->same[i] = i;
		find_eras(replay);
		replay->owners =
			malloc(most_slots(replay) * sizeof(*replay->owners));
	}
	if (replay->owners)
		status = run(replay, error);
	else
		failure(error, status, "cannot apply a history");
	free(replay->owners);
	free(replay->same);
	free(replay->place);
	free(replay->era);
	return status;
}

int oxp_history_apply(struct oxp_node *node, const struct oxp_key *key,
		      const struct oxp_past_weight *past, uint32_t count,
		      char *error)
{
	int index = lock_service(node, key, error), status;
	struct replay replay = {
		.node = node,
		.index = index,
		.past = past,
		.count = count,
	};

	if (index < 0)
		return index;
	replay.live = live_block(node, index);
	status = check_history(node, past, count, error);
	if (!status && count && !(replay.live->flags & OXP_SERVICE_NAT) &&
	    !has_forwarded(node, index))
		status = apply(&replay, error);
	unlock_node(node);
	return status;
}
