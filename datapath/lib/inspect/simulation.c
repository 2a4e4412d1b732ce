// SPDX-License-Identifier: Apache-2.0
/*
 * Running the program on the node's tables, with private copies of what packets
 * change: what would happen to a frame, without a trace in the node.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "address.h"
#include "age_since.h"
#include "clock.h"
#include "error.h"
#include "forward.skel.h"
#include "inspect/flow.h"
#include "load/load.h"
#include "node/lock.h"
#include "program/load.h"
#include "program/test_run.h"
#include "service/find.h"
#include "state.h"
#include "table/blocks.h"
#include "table/counters.h"
#include "table/slots.h"

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
	object->rodata->services_half = 1;
	object->rodata->members_half = 1;
	object->rodata->writes_ages = false;
	object->rodata->writes_nat = false;
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

static int program_of(const struct oxp_simulation *simulation)
{
	return bpf_program__fd(simulation->object->progs.oxp_forward);
}

static int read_tag(const struct oxp_simulation *simulation, uint8_t tag[8],
		    char *error)
{
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);
	int status =
		bpf_obj_get_info_by_fd(program_of(simulation), &info, &length);

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
	int status = read_outcomes(simulation, before, error);

	if (!status)
		status = run_program(program_of(simulation), frame, error);
	if (!status)
		status = read_outcomes(simulation, outcomes, error);
	for (int i = 0; i < OXP_OUTCOMES && !status; i++)
		outcomes[i] -= before[i];
	return status;
}

static void recall(const struct oxp_simulation *simulation, uint64_t name,
		   const struct service_block *block, struct oxp_selection *out)
{
	uint32_t sets = simulation->node->config->flows_max / FLOW_SET_WAYS;
	const struct flow_set *set = &simulation->flows[name & (sets - 1)];

	for (int i = 0; i < FLOW_SET_WAYS; i++) {
		uint64_t entry = set->entry[i];
		uint32_t age =
			age_since(entry >> FLOW_TIME_SHIFT, coarse_time() >> 30,
				  FLOW_TIME_MASK, AGE_AHEAD);

		if ((entry & FLOW_NAME_MASK) != (name & FLOW_NAME_MASK))
			continue;
		if (age > block->idle_timeout_s)
			return;
		out->remembered = entry & FLOW_MEMBER;
		out->confirmed = !!(entry & FLOW_CONFIRMED);
		out->age_s = age;
		return;
	}
}

static uint16_t member_number(uint16_t member)
{
	return member == SLOT_NOBODY ? OXP_NO_MEMBER : member;
}

static void select_slot(const struct oxp_simulation *simulation, uint32_t index,
			const struct oxp_packet *packet,
			struct oxp_selection *out)
{
	struct oxp_node *node = simulation->node;
	struct service_block *block = live_block(node, index);
	struct selecting flow = selecting_of(block, packet);
	uint64_t hash = selecting_hash(&flow, FLOW_SEED), name;

	*out = (struct oxp_selection){
		.slots = block->slots,
		.slot = flow_slot(hash, block->slots),
		.entropy = flow_entropy(hash),
		.remembered = OXP_NO_MEMBER,
		.learning = !!(block->flags & BLOCK_LEARNING),
	};
	out->open = slot_is_open(block, out->slot);
	out->now = member_number(owner_at(block, out->slot));
	out->before = out->now;
	out->changed = slot_is_changed(block, out->slot);
	if (out->open || out->changed)
		out->before = member_number(
			before_at(block, flow_slot(hash, block->before_slots)));
	name = flow_name(selecting_hash(&flow, node->config->seed), index);
	if (out->open && !packet->later)
		recall(simulation, name, block, out);
}

int oxp_simulation_select(struct oxp_simulation *simulation,
			  const struct oxp_key *key,
			  const struct oxp_packet *packet,
			  struct oxp_selection *out, char *error)
{
	int index = lock_service(simulation->node, key, error);

	if (index < 0)
		return index;
	select_slot(simulation, index, packet, out);
	unlock_node(simulation->node);
	return 0;
}

/* Returns SHARE_WAYS if there is no such tag. */
static int way_of(const struct shared_set *set, uint64_t name)
{
	int way = 0;

	while (way < SHARE_WAYS && set->tag[way] != name)
		way++;
	return way;
}

int oxp_simulation_fragment_find(struct oxp_simulation *simulation,
				 const struct oxp_packet *packet,
				 struct oxp_key *service, uint16_t *member,
				 char *error)
{
	bool v4 = is_v4(packet->destination.bytes);
	__be32 id =
		v4 ? htons(packet->fragment_id) : htonl(packet->fragment_id);
	__be32 source[4], destination[4];
	const struct shared_set *set;
	int way, status;
	uint64_t name;
	uint32_t what;

	memcpy(source, packet->source.bytes, sizeof(source));
	memcpy(destination, packet->destination.bytes, sizeof(destination));
	name = fragment_name(source, destination, id, packet->fragment_protocol,
			     simulation->node->config->seed);
	set = &simulation->fragments[name & (FRAGMENT_SETS - 1)];
	way = way_of(set, name);
	if (way == SHARE_WAYS ||
	    age_since(set->state[way] >> SHARE_TIME_SHIFT,
		      coarse_time() >> SHARE_UNIT_SHIFT, UINT32_MAX,
		      AGE_AHEAD_MS) > FRAGMENT_AGE_MAX)
		return failure(error, -ENOENT, "the first fragment");
	what = set->state[way] & SHARE_WHAT;
	if (!what || what >= FRAGMENT_OF_NAT)
		return failure(error, -ENOENT, "the first fragment");
	*service = (struct oxp_key){.vip = packet->destination,
				    .port = ntohs(set->value[way] >> 48),
				    .protocol = what};
	status = lock_service(simulation->node, service, error);
	if (status < 0)
		return status;
	unlock_node(simulation->node);
	/* the service is gone, and its key belongs to another one */
	if (status != (int)(uint32_t)set->value[way])
		return failure(error, -ENOENT, "the first fragment's service");
	*member = set->value[way] >> 32;
	return 0;
}

int oxp_simulation_tokens_get(struct oxp_simulation *simulation,
			      const struct oxp_key *key,
			      const struct oxp_address *source,
			      uint64_t *tokens, char *error)
{
	int index = lock_service(simulation->node, key, error);
	const struct service_block *block;
	bool v6 = !is_v4(source->bytes);
	union source_budget budget;
	const struct shared_set *set;
	uint64_t rate, burst, gained, name, who = 0;
	int way;

	if (index < 0)
		return index;
	block = live_block(simulation->node, index);
	rate = block->new_flow_rate;
	burst = block->new_flow_burst ? block->new_flow_burst : rate;
	unlock_node(simulation->node);
	/* the budget has 32 bits */
	if (burst > UINT32_MAX / 1024)
		burst = UINT32_MAX / 1024;
	*tokens = burst * 1024;
	memcpy(&who, source->bytes + (v6 ? 0 : 12), v6 ? 8 : 4);
	name = source_name(who, v6, index, simulation->node->config->seed);
	set = &simulation->sources[name & (SOURCE_SETS - 1)];
	way = way_of(set, name);
	if (way == SHARE_WAYS)
		return 0;
	budget.word = set->value[way];
	gained = age_since(budget.time, coarse_time() / 1000000, ~0U,
			   AGE_AHEAD_MS) *
		 rate;
	if (gained < burst * 1000 &&
	    budget.flows + gained * 1024 / 1000 < *tokens)
		*tokens = budget.flows + gained * 1024 / 1000;
	return 0;
}
