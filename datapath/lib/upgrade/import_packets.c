// SPDX-License-Identifier: Apache-2.0
/* Copying flows and counters whose maps are not handed over. */
#include "upgrade/import_packets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "add_counters.skel.h"
#include "age_since.h"
#include "clock.h"
#include "error.h"
#include "load/load.h"
#include "state.h"
#include "upgrade/import_service.h"
#include "upgrade/reader.h"
#include "upgrade/stream.h"

static uint32_t age_of(uint64_t entry, uint32_t now)
{
	return age_since(entry >> FLOW_TIME_SHIFT, now, FLOW_TIME_MASK,
			 AGE_AHEAD);
}

/* The entries were read at different times, which adds an error of one unit. */
static bool is_newer(uint64_t entry, uint64_t than, uint32_t now)
{
	return age_of(entry, now) + 1 < age_of(than, now);
}

/* Returns the place of the same flow, a free one, or the oldest one. */
static int place_in(const uint64_t *entry, uint64_t wanted, uint32_t now)
{
	int place = 0;

	for (int way = 0; way < FLOW_SET_WAYS; way++)
		if (entry[way] && (entry[way] ^ wanted) <= ~FLOW_NAME_MASK)
			return way;
	for (int way = 0; way < FLOW_SET_WAYS && entry[place]; way++)
		if (!entry[way] ||
		    age_of(entry[way], now) > age_of(entry[place], now))
			place = way;
	return place;
}

/* Packets may change the set at the same time: their entries are newer. Entries
 * of an earlier copy may be older. */
static void insert(struct flow_set *set, uint64_t wanted)
{
	uint64_t entry[FLOW_SET_WAYS];
	uint32_t now;
	int way;

	for (way = 0; way < FLOW_SET_WAYS; way++)
		entry[way] =
			__atomic_load_n(&set->entry[way], __ATOMIC_RELAXED);
	now = (coarse_time() >> 30) + 1;
	way = place_in(entry, wanted, now);
	if (!entry[way] || is_newer(wanted, entry[way], now))
		__atomic_compare_exchange_n(&set->entry[way],
					    (__u64 *)&entry[way], wanted, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

int fill_flows(struct oxp_node *node, const struct import *import, char *error)
{
	const struct record *record = find_record(import, RECORD_FLOWS);
	uint32_t sets = node->config->flows_max / FLOW_SET_WAYS;
	size_t length = sets * sizeof(struct flow_set);
	uint64_t now = coarse_time() >> 30;
	struct flow_set *set;

	/* names of another format match no flow here */
	if (!record ||
	    imported_format(import, "flow names") != FORMAT_FLOW_NAMES)
		return 0;
	set = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED,
		   node->map[MAP_FLOWS], 0);
	if (set == MAP_FAILED)
		return failure(error, -errno, "cannot mmap the flows");
	for (uint32_t i = 0; i < record->head.count; i++) {
		struct stream_flow one;
		uint64_t entry;

		element_of(record, i, &one, sizeof(one));
		if (one.age > FLOW_TIME_MASK || one.member >= OXP_MEMBERS_MAX)
			continue;
		entry = (one.name & FLOW_NAME_MASK) |
			((now - one.age) & FLOW_TIME_MASK) << FLOW_TIME_SHIFT |
			(one.confirmed ? FLOW_CONFIRMED : 0) |
			(one.ended ? FLOW_ENDED : 0) | one.member;
		insert(&set[one.name & (sets - 1)], entry);
	}
	munmap(set, length);
	return 0;
}

struct adder {
	struct add_counters *object;
	struct addition addition[ADDITIONS_MAX];
	uint32_t count;
	int status;
};

static int open_adder(struct oxp_node *node, struct adder *adder, char *error)
{
	static const struct load load = {
		.what = "the program that adds counters"};
	int status = 0;

	*adder = (struct adder){};
	forget_libbpf_messages();
	adder->object = add_counters__open();
	if (!adder->object)
		return load_skeleton(&load, NULL, 0, error, OXP_ERROR_LENGTH);
	for (int i = 0; i < MAPS && !status; i++)
		status = bpf_map__reuse_fd(
			find_map(adder->object->obj, map_names[i]),
			node->map[i]);
	adder->object->rodata->services_part =
		part_of_slice(node->config->services_max);
	adder->object->rodata->members_part =
		part_of_slice(node->config->members_max);
	return load_skeleton(&load, adder->object->skeleton, status, error,
			     OXP_ERROR_LENGTH);
}

static void flush(struct adder *adder)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = adder->addition,
		    .data_size_in = adder->count * sizeof(adder->addition[0]));

	if (adder->count && !adder->status)
		adder->status = bpf_prog_test_run_opts(
			bpf_program__fd(adder->object->progs.oxp_add),
			&options);
	adder->count = 0;
}

static void add(struct adder *adder, enum added_map map, uint32_t index,
		const struct stream_counters *counters, uint64_t drops,
		uint64_t flow_table_full)
{
	if (!(counters->packets | counters->bytes | counters->flows | drops |
	      flow_table_full))
		return;
	adder->addition[adder->count++] = (struct addition){
		.map = map,
		.index = index,
		.packets = counters->packets,
		.bytes = counters->bytes,
		.flows = counters->flows,
		.drops = drops,
		.flow_table_full = flow_table_full,
	};
	if (adder->count == ADDITIONS_MAX)
		flush(adder);
}

static void add_outcomes(struct adder *adder, const struct record *record)
{
	for (uint32_t i = 0; i < record->head.count; i++) {
		struct stream_counters counters = {};
		struct stream_outcome one;

		element_of(record, i, &one, sizeof(one));
		counters.packets = one.packets;
		counters.bytes = one.bytes;
		if (one.outcome < OXP_OUTCOMES)
			add(adder, ADDED_OUTCOME, one.outcome, &counters, 0, 0);
	}
}

static void add_record(struct adder *adder, const struct record *record,
		       const int adopted[MAPS])
{
	struct stream_service service;
	struct stream_member member;

	if (is_record(record, RECORD_OUTCOMES) && adopted[MAP_OUTCOMES] < 0)
		add_outcomes(adder, record);
	if (is_record(record, RECORD_SERVICE) &&
	    adopted[MAP_SERVICE_COUNTERS] < 0) {
		element_of(record, 0, &service, sizeof(service));
		add(adder, ADDED_SERVICE, service.index, &service.counters,
		    service.drops, service.flow_table_full);
	}
	if (!is_record(record, RECORD_MEMBERS) ||
	    adopted[MAP_MEMBER_COUNTERS] >= 0)
		return;
	for (uint32_t i = 0; i < record->head.count; i++) {
		element_of(record, i, &member, sizeof(member));
		add(adder, ADDED_MEMBER, member.counter, &member.counters, 0,
		    0);
	}
}

static int add_counters(struct oxp_node *node, const struct import *import,
			const int adopted[MAPS], char *error)
{
	struct adder adder;
	int status = open_adder(node, &adder, error);

	for (uint32_t i = 0; i < import->count && !status; i++)
		add_record(&adder, &import->records[i], adopted);
	if (!status) {
		flush(&adder);
		if (adder.status)
			status = failure(error, adder.status,
					 "cannot add to the counters");
	}
	add_counters__destroy(adder.object);
	return status;
}

int fill_counters(struct oxp_node *node, const struct import *import,
		  const int adopted[MAPS], char *error)
{
	refresh_ages(node, import);
	if (adopted[MAP_SERVICE_COUNTERS] >= 0 &&
	    adopted[MAP_MEMBER_COUNTERS] >= 0 && adopted[MAP_OUTCOMES] >= 0)
		return 0;
	return add_counters(node, import, adopted, error);
}
