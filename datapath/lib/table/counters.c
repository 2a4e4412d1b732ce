// SPDX-License-Identifier: Apache-2.0
/*
 * Counters: summing them over all CPUs, and allocating them.
 *
 * A member's counter is named in its service's block. Which ones are free is
 * derived from the blocks, so nothing leaks when a process dies.
 */
#include "table/counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "epoch.h"
#include "error.h"
#include "state.h"
#include "table/blocks.h"

/* Sum `words` 64-bit words of one element over all CPUs. */
static int read_sums(int map, uint32_t index, uint32_t words, uint64_t *sums)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *values;
	int status;

	if (cpus < 0)
		return cpus;
	values = calloc((size_t)cpus * words, sizeof(*values));
	if (!values)
		return -ENOMEM;
	memset(sums, 0, words * sizeof(*sums));
	status = bpf_map_lookup_elem(map, &index, values);
	for (size_t i = 0; !status && i < (size_t)cpus * words; i++)
		sums[i % words] += values[i];
	free(values);
	return status;
}

static int write_zeroes(int map, uint32_t index, uint32_t words)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *values;
	int status;

	if (cpus < 0)
		return cpus;
	values = calloc((size_t)cpus * words, sizeof(*values));
	if (!values)
		return -ENOMEM;
	status = bpf_map_update_elem(map, &index, values, BPF_ANY);
	free(values);
	return status;
}

#define WORDS(type) (sizeof(type) / sizeof(uint64_t))

int size_counters(struct node_config *config, char *error)
{
	int cpus = libbpf_num_possible_cpus();

	if (cpus < 0)
		return failure(error, cpus, "cannot count the CPUs");
	config->cpus = cpus;
	return 0;
}

/* The counters of one service or member on one CPU. */
struct element {
	struct traffic_counters *traffic;
	struct event_counters *events;
	struct rare_counters *rare;           /* NULL for members */
	const struct pending_counts *pending; /* of that CPU */
	uint32_t index;
	bool of_member;
};

static struct element element(const struct oxp_node *node, uint32_t cpu,
			      uint32_t index, bool of_member)
{
	union counters *slice =
		of_member ? node->member_counters : node->service_counters;
	size_t part = part_of_slice(of_member ? node->config->members_max
					      : node->config->services_max);

	slice += (of_member ? MEMBER_PARTS : SERVICE_PARTS) * part * cpu;
	return (struct element){
		.traffic = &slice[index].traffic,
		.events = &slice[part + index].events,
		.rare = of_member ? NULL : &slice[2 * part + index].rare,
		.pending = &node->pending[cpu],
		.index = index,
		.of_member = of_member,
	};
}

static uint64_t read_once(const __u64 *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Returns what the CPU has yet to add to the element. */
static struct traffic_counters pending_of(const struct element *one)
{
	uint32_t count =
		__atomic_load_n(&one->pending->count, __ATOMIC_ACQUIRE);
	struct traffic_counters sum = {};

	for (uint32_t i = 0; i < count && i < PENDING_COUNTS; i++) {
		const struct pending_count *entry = &one->pending->entry[i];

		if (one->index !=
		    (one->of_member ? entry->member : entry->service))
			continue;
		sum.packets++;
		sum.bytes += entry->bytes;
	}
	return sum;
}

/* Adding takes a CPU a microsecond, or longer if it is a preempted virtual CPU.
 * If it never ends the state is damaged, and the sums are not exact. */
#define SPINS 1000
#define NAPS 10000
#define NAP_US 100

static uint32_t turns_of(const struct element *one)
{
	uint32_t turns =
		__atomic_load_n(&one->pending->turns, __ATOMIC_ACQUIRE);

	for (int i = 0; turns & 1 && i < SPINS + NAPS; i++) {
		if (i >= SPINS)
			usleep(NAP_US);
		turns = __atomic_load_n(&one->pending->turns, __ATOMIC_ACQUIRE);
	}
	return turns;
}

/* Whether nothing was added since turns_of(). */
static bool still_pending(const struct element *one, uint32_t turns)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&one->pending->turns, __ATOMIC_RELAXED) == turns;
}

/* No packet counts here any more. What is pending belongs to the previous owner
 * and will still be added, so start that much below zero. */
static void zero(struct element one)
{
	struct traffic_counters owed;
	uint32_t turns;

	do {
		turns = turns_of(&one);
		owed = pending_of(&one);
		*one.traffic =
			(struct traffic_counters){-owed.packets, -owed.bytes};
	} while (!still_pending(&one, turns));
	*one.events = (struct event_counters){};
	if (one.rare)
		*one.rare = (struct rare_counters){};
}

int zero_service_counters(struct oxp_node *node, uint32_t index)
{
	for (uint32_t cpu = 0; cpu < node->config->cpus; cpu++)
		zero(element(node, cpu, index, false));
	node->nat_services[index] = (struct nat_service){};
	return write_zeroes(node->map[MAP_REPLY_COUNTERS], index,
			    WORDS(struct reply_counters));
}

static void zero_member_counters(struct oxp_node *node, uint32_t index)
{
	for (uint32_t cpu = 0; cpu < node->config->cpus; cpu++)
		zero(element(node, cpu, index, true));
}

int read_reply_counters(struct oxp_node *node, uint32_t index,
			struct reply_counters *out)
{
	uint64_t sum[WORDS(struct reply_counters)] = {};
	int status = read_sums(node->map[MAP_REPLY_COUNTERS], index,
			       WORDS(struct reply_counters), sum);

	*out = (struct reply_counters){sum[0], sum[1]};
	return status;
}

/* Packets may count at the same time. */
static void add_counts(struct service_counts *sum, struct element one)
{
	struct traffic_counters traffic;
	uint32_t turns;

	do {
		turns = turns_of(&one);
		traffic = pending_of(&one);
		traffic.packets += read_once(&one.traffic->packets);
		traffic.bytes += read_once(&one.traffic->bytes);
	} while (!still_pending(&one, turns));
	sum->counters.packets += traffic.packets;
	sum->counters.bytes += traffic.bytes;
	sum->counters.flows += read_once(&one.events->flows);
	sum->drops += read_once(&one.events->drops);
	if (one.rare)
		sum->flow_table_full += read_once(&one.rare->flow_table_full);
}

void read_service_counts(struct oxp_node *node, uint32_t index,
			 struct service_counts *out)
{
	*out = (struct service_counts){};
	if (index >= node->config->services_max)
		return; /* damaged */
	for (uint32_t cpu = 0; cpu < node->config->cpus; cpu++)
		add_counts(out, element(node, cpu, index, false));
}

void read_member_counters(struct oxp_node *node, uint32_t index,
			  struct oxp_counters *out)
{
	struct service_counts counts = {};

	for (uint32_t cpu = 0;
	     index < node->config->members_max && cpu < node->config->cpus;
	     cpu++)
		add_counts(&counts, element(node, cpu, index, true));
	*out = counts.counters;
}

static void mark_counters(struct oxp_node *node,
			  const struct service_block *block, uint64_t since)
{
	uint64_t *state = node->counter_free_since;

	for (uint32_t i = 0; i < block->members; i++) {
		uint32_t counter = block->member[i].counter;

		if (block->member[i].flags & MEMBER_PRESENT &&
		    counter < node->config->members_max &&
		    state[counter] < since)
			state[counter] = since;
	}
}

void derive_counters(struct oxp_node *node)
{
	struct node_config *config = node->config;

	if (node->counters_changes == config->changes)
		return;
	memset(node->counter_free_since, 0,
	       config->members_max * sizeof(*node->counter_free_since));
	FOR_EACH_SERVICE(node, i) {
		struct service_entry *entry = entry_of(node, i);

		mark_counters(node, live_block(node, i), COUNTER_USED);
		/* packets may still count for members that were just removed */
		if (entry->switched > config->waited)
			mark_counters(node, scratch_block(node, i),
				      entry->switched);
	}
	node->counters_changes = config->changes;
}

static bool take_counter(struct oxp_node *node, uint32_t *index)
{
	uint64_t *state = node->counter_free_since;
	uint32_t max = node->config->members_max;

	for (uint32_t i = 0; i < max; i++) {
		uint32_t counter = (node->counter_cursor + i) % max;

		if (state[counter] > node->config->waited)
			continue;
		state[counter] = COUNTER_USED;
		node->counter_cursor = counter + 1;
		*index = counter;
		return true;
	}
	return false;
}

static int allocate_counter(struct oxp_node *node, uint32_t *index, char *error)
{
	int status;

	derive_counters(node);
	if (!take_counter(node, index)) {
		/* some may become free once packets in progress are done */
		status = grace_period(node, error);
		if (status)
			return status;
		if (!take_counter(node, index))
			return failure(error, -ENOSPC,
				       "all %u members of the node are in use",
				       node->config->members_max);
	}
	zero_member_counters(node, *index);
	return 0;
}

void release_counter(struct oxp_node *node, uint32_t index, uint64_t since)
{
	node->counter_free_since[index] = since;
}

static bool is_new(const uint64_t new_places[PLACE_WORDS], uint32_t place)
{
	return new_places[place / 64] >> place % 64 & 1;
}

void release_new_counters(struct oxp_node *node,
			  const struct service_block *draft,
			  const uint64_t new_places[PLACE_WORDS],
			  uint32_t places)
{
	for (uint32_t i = 0; i < places; i++)
		if (is_new(new_places, i))
			release_counter(node, draft->member[i].counter, 0);
}

int allocate_new_counters(struct oxp_node *node, struct service_block *draft,
			  const uint64_t new_places[PLACE_WORDS], char *error)
{
	for (uint32_t i = 0; i < draft->members; i++) {
		int status;

		if (!is_new(new_places, i))
			continue;
		status = allocate_counter(node, &draft->member[i].counter,
					  error);
		if (status) {
			release_new_counters(node, draft, new_places, i);
			return status;
		}
	}
	return 0;
}

void release_old_counters(struct oxp_node *node,
			  const struct service_block *old,
			  const struct service_block *next)
{
	for (uint32_t i = 0; i < old->members; i++) {
		const struct block_member *member = &old->member[i];

		if (member->flags & MEMBER_PRESENT &&
		    (i >= next->members ||
		     !(next->member[i].flags & MEMBER_PRESENT) ||
		     next->member[i].counter != member->counter))
			release_counter(node, member->counter,
					node->config->epoch);
	}
}

int read_outcome(int map, uint32_t outcome, struct oxp_outcome_counters *out)
{
	uint64_t sum[WORDS(struct outcome_counters)];
	int status =
		read_sums(map, outcome, WORDS(struct outcome_counters), sum);

	*out = (struct oxp_outcome_counters){sum[0], sum[1]};
	return status;
}

int oxp_outcomes_list(struct oxp_node *node, struct oxp_outcome_counters *out,
		      uint32_t capacity, char *error)
{
	int status = 0;

	for (uint32_t i = 0; i < OXP_OUTCOMES && i < capacity && !status; i++)
		status = read_outcome(node->map[MAP_OUTCOMES], i, &out[i]);
	return status ? failure(error, status, "cannot read outcomes")
		      : OXP_OUTCOMES;
}
