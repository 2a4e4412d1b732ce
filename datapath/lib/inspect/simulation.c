// SPDX-License-Identifier: Apache-2.0
/*
 * Running the program, with a record of its decisions, on the node's tables,
 * with private copies of what packets change: what would happen to a frame,
 * without a trace in the node.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "forward.skel.h"
#include "load/load.h"
#include "program/load.h"
#include "program/test_run.h"
#include "state.h"
#include "table/counters.h"

struct oxp_simulation {
	struct oxp_node *node;
	struct forward *object;
	/* the copies, mapped */
	struct flow_set *flows;
	size_t flows_size;
	struct shared_set *fragments;
	struct shared_set *sources;
};

/* Whether packets write the map, so that it needs a private copy. The program
 * decides nothing by counters and checks the index: one element suffices. Ages
 * are in the tables; with writes_ages false the program leaves them alone. */
static bool is_private(enum map map)
{
	/* NAT maps are only read, see writes_nat */
	if (map == MAP_NAT || map == MAP_NAT_TABLES || map == MAP_NAT_INDEX ||
	    map == MAP_NAT_OWNERS)
		return false;
	return map_formats[map] != 0;
}

static int load_copy(struct oxp_simulation *simulation, char *error)
{
	struct oxp_node *node = simulation->node;
	const struct node_config *config = node->config;
	static const struct load load = {.what = "the program"};
	struct forward *object;
	int status = 0;

	forget_libbpf_messages();
	object = simulation->object = forward__open();
	if (!object)
		return load_skeleton(&load, NULL, 0, error, OXP_ERROR_LENGTH);
	for (int i = 0; i < MAPS && !status; i++)
		if (!is_private(i))
			status = bpf_map__reuse_fd(
				find_map(object->obj, map_names[i]),
				node->map[i]);
	if (!status)
		status = bpf_map__set_max_entries(
			object->maps.flows, config->flows_max / FLOW_SET_WAYS);
	configure_program(object, config, config->flags);
	object->rodata->services_part = 1;
	object->rodata->members_part = 1;
	object->rodata->writes_ages = false;
	object->rodata->writes_nat = false;
	object->rodata->records = true;
	object->rodata->feature_fib = true;
	return load_skeleton(&load, object->skeleton, status, error,
			     OXP_ERROR_LENGTH);
}

/* Copy a map, even if packets write to it meanwhile. Returns the mapped copy or
 * NULL. */
static void *copy_map(int from, int to, size_t size, char *error)
{
	void *source = mmap(NULL, size, PROT_READ, MAP_SHARED, from, 0);
	void *copy =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, to, 0);
	bool done = source != MAP_FAILED && copy != MAP_FAILED;

	if (done)
		memcpy(copy, source, size);
	else
		failure(error, -errno, "cannot copy what packets left");
	if (source != MAP_FAILED)
		munmap(source, size);
	if (!done && copy != MAP_FAILED)
		munmap(copy, size);
	return done ? copy : NULL;
}

#define SHARED_SIZE(sets) ((sets) * sizeof(struct shared_set))

static int copy_state(struct oxp_simulation *simulation, char *error)
{
	struct forward *object = simulation->object;
	const int *map = simulation->node->map;

	simulation->flows_size =
		simulation->node->config->flows_max * sizeof(uint64_t);
	simulation->flows =
		copy_map(map[MAP_FLOWS], bpf_map__fd(object->maps.flows),
			 simulation->flows_size, error);
	if (simulation->flows)
		simulation->fragments = copy_map(
			map[MAP_FRAGMENTS], bpf_map__fd(object->maps.fragments),
			SHARED_SIZE(FRAGMENT_SETS), error);
	if (simulation->fragments)
		simulation->sources = copy_map(
			map[MAP_SOURCES], bpf_map__fd(object->maps.sources),
			SHARED_SIZE(SOURCE_SETS), error);
	return simulation->sources ? 0 : -EIO;
}

/* The tag of the program without a record. */
static int read_tag(const struct oxp_simulation *simulation, uint8_t tag[8],
		    char *error)
{
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);
	int status = bpf_obj_get_info_by_fd(
		bpf_program__fd(simulation->object->progs.oxp_forward), &info,
		&length);

	if (status)
		return failure(error, status, "cannot look at the program");
	memcpy(tag, info.tag, sizeof(info.tag));
	return 0;
}

int oxp_simulation_open(struct oxp_node *node, struct oxp_simulation **out,
			uint8_t tag[8], char *error)
{
	struct oxp_simulation *simulation = calloc(1, sizeof(*simulation));
	int status;

	*out = NULL;
	if (!simulation)
		return failure(error, -ENOMEM, "cannot simulate");
	simulation->node = node;
	status = load_copy(simulation, error);
	if (!status)
		status = copy_state(simulation, error);
	if (!status)
		status = read_tag(simulation, tag, error);
	if (status) {
		oxp_simulation_close(simulation);
		return status;
	}
	*out = simulation;
	return 0;
}

void oxp_simulation_close(struct oxp_simulation *simulation)
{
	if (!simulation)
		return;
	if (simulation->flows)
		munmap(simulation->flows, simulation->flows_size);
	if (simulation->fragments)
		munmap(simulation->fragments, SHARED_SIZE(FRAGMENT_SETS));
	if (simulation->sources)
		munmap(simulation->sources, SHARED_SIZE(SOURCE_SETS));
	forward__destroy(simulation->object);
	free(simulation);
}

static int read_outcomes(const struct oxp_simulation *simulation,
			 uint64_t *counts, char *error)
{
	int map = bpf_map__fd(simulation->object->maps.outcomes);
	struct oxp_outcome_counters counters;
	int status = 0;

	for (uint32_t i = 0; i < OXP_OUTCOMES && !status; i++) {
		status = read_outcome(map, i, &counters);
		counts[i] = counters.packets;
	}
	return status ? failure(error, status, "cannot read outcomes") : 0;
}

int oxp_simulation_run(struct oxp_simulation *simulation,
		       struct oxp_frame *frame, uint64_t outcomes[OXP_OUTCOMES],
		       char *error)
{
	uint64_t before[OXP_OUTCOMES];
	struct forward *object = simulation->object;
	int status = read_outcomes(simulation, before, error);

	memset(object->data_record, 0, sizeof(*object->data_record));
	if (!status)
		status = run_program(bpf_program__fd(object->progs.oxp_forward),
				     frame, error);
	if (!status)
		status = read_outcomes(simulation, outcomes, error);
	for (int i = 0; i < OXP_OUTCOMES && !status; i++)
		outcomes[i] -= before[i];
	return status;
}

int oxp_simulation_decisions_get(struct oxp_simulation *simulation,
				 struct oxp_decision out[OXP_DECISIONS_MAX],
				 char *error)
{
	const struct decision_record *record =
		&simulation->object->data_record->record;

	if (record->count > OXP_DECISIONS_MAX)
		return failure(error, -EOVERFLOW,
			       "%llu decisions, of which only %u are known",
			       record->count, OXP_DECISIONS_MAX);
	memcpy(out, record->decision, record->count * sizeof(*out));
	return record->count;
}
