// SPDX-License-Identifier: Apache-2.0
/*
 * Estimating how many flows are alive. Packets note flows
 * (bpf/forward/watch.h), all of them while the node is idle enough. The cost is
 * bounded in two ways:
 *
 * - The 64 choices of uplinks are watched in an order that outsiders cannot
 *   know. Their number is halved while more than WATCH_RATE packets a second
 *   are watched, and doubled after a minute in which that would be less than
 *   half of WATCH_RATE.
 * - While more than WATCH_FLOWS flows are noted, the service with the most
 *   entries has half as many noted. A very large one does not degrade others.
 *
 * Figures are scaled up accordingly. Flows of choices or parts added lately are
 * known only once they have sent a packet, so figures omit them for the longest
 * idle timeout.
 */
#include "service/watch.h"

#include <errno.h>
#include <stdlib.h>

#include "age_since.h"
#include "clock.h"
#include "error.h"
#include "node/uplinks.h"
#include "table/blocks.h"

#define CALM_MS 60000
#define TIME_UNIT_SHIFT 30
#define IDLE_MAX 16000 /* units, as in the BPF programs */

static uint32_t service_of(uint64_t entry)
{
	return entry >> WATCH_SERVICE_SHIFT & WATCH_SERVICE_MASK;
}

static uint64_t tag_of(uint64_t entry)
{
	return entry >> WATCH_TAG_SHIFT;
}

static bool is_of(uint64_t choices, uint64_t entry)
{
	return choices >> (entry >> WATCH_CHOICE_SHIFT & (OXP_CHOICES - 1)) & 1;
}

/* Returns NULL if there is none. */
static struct service_block *block_of(struct oxp_node *node, uint64_t entry)
{
	uint32_t index = service_of(entry);

	if (index >= node->config->services_max ||
	    entry_of(node, index)->state != ENTRY_USED)
		return NULL;
	return live_block(node, index);
}

static uint32_t age_of(uint64_t entry, uint64_t now)
{
	return age_since(entry >> WATCH_TIME_SHIFT, now, FLOW_TIME_MASK,
			 AGE_AHEAD);
}

static bool is_outdated(const struct service_block *block, uint64_t entry,
			uint64_t now)
{
	uint32_t timeout =
		entry & WATCH_CLOSED ? WATCH_CLOSED_AGE : block->idle_timeout_s;

	return age_of(entry, now) > (timeout < IDLE_MAX ? timeout : IDLE_MAX);
}

/* Call function() for each entry and replace the entry by the result, unless a
 * packet has changed it meanwhile. */
static void for_each_entry(struct oxp_node *node,
			   uint64_t (*function)(void *argument, uint64_t entry),
			   void *argument)
{
	__u64 *end = node->watched[WATCH_SETS].entry;

	for (__u64 *at = node->watched[0].entry; at < end; at++) {
		__u64 entry = __atomic_load_n(at, __ATOMIC_RELAXED), next;

		if (!entry)
			continue;
		next = function(argument, entry);
		if (next != entry)
			__atomic_compare_exchange_n(at, &entry, next, false,
						    __ATOMIC_RELAXED,
						    __ATOMIC_RELAXED);
	}
}

struct sweep {
	struct oxp_node *node;
	uint64_t now, choices;
	uint32_t total;
	const uint64_t *gone;
};

/* Drop outdated entries and count the others by service. */
static uint64_t keep(void *argument, uint64_t entry)
{
	struct sweep *sweep = argument;
	const struct service_block *block = block_of(sweep->node, entry);

	if (!block || !is_of(sweep->choices, entry) ||
	    !watch_has_part(tag_of(entry), WATCH_NOTED(block->watch)) ||
	    is_outdated(block, entry, sweep->now))
		return 0;
	sweep->node->watch.of_service[service_of(entry)]++;
	sweep->total++;
	return entry;
}

struct count {
	struct oxp_node *node;
	uint64_t now, choices;
	uint32_t first, count, *alive;
};

static uint64_t count_one(void *argument, uint64_t entry)
{
	struct count *count = argument;
	const struct service_block *block;
	uint32_t which = service_of(entry) - count->first;

	if (which >= count->count || entry & WATCH_CLOSED)
		return entry;
	block = block_of(count->node, entry);
	if (block && is_of(count->choices, entry) &&
	    watch_has_part(tag_of(entry), WATCH_COUNTED(block->watch)) &&
	    !is_outdated(block, entry, count->now))
		count->alive[which]++;
	return entry;
}

void count_alive(struct oxp_node *node, uint32_t first, uint32_t count,
		 uint32_t *alive)
{
	uint64_t choices = watched_choices(node) & node->config->counted;
	uint32_t parts = __builtin_popcountll(choices);
	struct count all = {.node = node,
			    .now = coarse_time() >> TIME_UNIT_SHIFT,
			    .choices = choices,
			    .first = first,
			    .count = count,
			    .alive = alive};

	for (uint32_t i = 0; i < count; i++)
		alive[i] = 0;
	for_each_entry(node, count_one, &all);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t sum = alive[i];

		if (!sum)
			continue;
		sum <<= WATCH_COUNTED(live_block(node, first + i)->watch);
		sum = (sum * OXP_CHOICES + parts / 2) / parts;
		alive[i] = sum < UINT32_MAX ? sum : UINT32_MAX;
	}
}

static uint64_t forget_one(void *argument, uint64_t entry)
{
	const struct sweep *sweep = argument;
	uint32_t index = service_of(entry);

	return index < sweep->node->config->services_max &&
			       sweep->gone[index / 64] >> index % 64 & 1
		       ? 0
		       : entry;
}

void forget_watched(struct oxp_node *node, const uint64_t *gone)
{
	struct sweep sweep = {.node = node, .gone = gone};

	for_each_entry(node, forget_one, &sweep);
}

/* Returns a set of `count` choices; smaller sets are subsets of larger ones. */
static uint64_t first_choices(const struct oxp_node *node, uint32_t count)
{
	uint64_t random = node->config->seed, choices = 0;
	uint8_t order[OXP_CHOICES];

	for (uint32_t i = 0; i < OXP_CHOICES; i++) {
		uint32_t other;

		random = random * 6364136223846793005ULL +
			 1442695040888963407ULL;
		other = (random >> 33) % (i + 1);
		order[i] = order[other];
		order[other] = i;
	}
	for (uint32_t i = 0; i < count; i++)
		choices |= 1ULL << order[i];
	return choices;
}

/* Returns packets per second. */
static uint64_t read_rate(struct oxp_node *node, uint64_t passed_ms)
{
	uint64_t before = node->watch.packets, sum = 0;

	for (int i = 0; i < WATCH_LOADS; i++)
		sum += __atomic_load_n(&node->watched[WATCH_SETS + i].entry[0],
				       __ATOMIC_RELAXED);
	node->watch.packets = sum;
	if (!node->watch.looked || !passed_ms || sum < before) {
		node->watch.looked = true;
		return 0;
	}
	return (sum - before) * 1000 / passed_ms;
}

static uint64_t longest_ms(const struct oxp_node *node)
{
	return node->config->idle_timeout_max * 1000ULL;
}

static void choose(struct oxp_node *node, uint64_t rate, uint64_t passed_ms)
{
	struct node_config *config = node->config;
	uint32_t count = __builtin_popcountll(config->watched);

	if (!count) {
		/* nothing has been noted yet, so all choices count at once */
		config->watched = config->counted = first_choices(node, 64);
		return;
	}
	node->watch.calm_ms += passed_ms;
	node->watch.warm_ms += passed_ms;
	if (4 * rate >= WATCH_RATE)
		node->watch.calm_ms = 0;
	for (; rate > WATCH_RATE && count > 1; rate /= 2)
		count /= 2;
	if (node->watch.calm_ms >= CALM_MS && count < OXP_CHOICES) {
		count *= 2;
		node->watch.calm_ms = node->watch.warm_ms = 0;
	}
	config->watched = first_choices(node, count);
	config->counted &= config->watched;
	if (!config->counted || node->watch.warm_ms >= longest_ms(node))
		config->counted = config->watched;
}

static void set_part(struct service_block *block, uint32_t noted,
		     uint32_t counted)
{
	__atomic_store_n(&block->watch, WATCH_PART(noted, counted),
			 __ATOMIC_RELAXED);
}

/* Halve the largest share until the total fits. */
static void note_less(struct oxp_node *node, uint32_t total)
{
	uint32_t *of_service = node->watch.of_service;

	while (total > WATCH_FLOWS) {
		struct service_block *block;
		uint32_t most = 0, noted;

		for (uint32_t i = 1; i < node->config->services_max; i++)
			if (of_service[i] > of_service[most])
				most = i;
		if (!of_service[most])
			return;
		block = live_block(node, most);
		noted = WATCH_NOTED(block->watch);
		total -= of_service[most] / 2;
		of_service[most] /= 2;
		if (noted == WATCH_PART_MAX)
			return;
		noted++;
		set_part(block, noted,
			 noted > WATCH_COUNTED(block->watch)
				 ? noted
				 : WATCH_COUNTED(block->watch));
	}
}

/* Count the parts that were added before; add parts where there is room. */
static void note_more(struct oxp_node *node, uint32_t total)
{
	FOR_EACH_SERVICE(node, i) {
		struct service_block *block = live_block(node, i);
		uint32_t noted, entries = node->watch.of_service[i];

		if (!block->watch)
			continue;
		noted = WATCH_NOTED(block->watch);
		if (noted && total + entries < WATCH_FLOWS / 2) {
			total += entries;
			set_part(block, noted - 1, noted);
		} else {
			set_part(block, noted, noted);
		}
	}
}

int watch_on(struct oxp_node *node, uint64_t passed_ms, char *error)
{
	struct sweep sweep = {.node = node};
	int status;

	if (!node->watch.of_service)
		node->watch.of_service =
			calloc(node->config->services_max,
			       sizeof(*node->watch.of_service));
	if (!node->watch.of_service)
		return failure(error, -ENOMEM, "cannot count flows");
	choose(node, read_rate(node, passed_ms), passed_ms);
	status = watch_uplinks(node, error);
	if (status)
		return status;
	for (uint32_t i = 0; i < node->config->services_max; i++)
		node->watch.of_service[i] = 0;
	sweep.now = coarse_time() >> TIME_UNIT_SHIFT;
	sweep.choices = watched_choices(node);
	for_each_entry(node, keep, &sweep);
	node->watch.parts_ms += passed_ms;
	if (node->watch.parts_ms >= longest_ms(node)) {
		node->watch.parts_ms = 0;
		note_more(node, sweep.total);
	}
	note_less(node, sweep.total);
	return 0;
}
