// SPDX-License-Identifier: Apache-2.0
/*
 * Index from clients' flows to flow numbers: a hash map with room for a flow
 * per port. It grows with the pools: packets write to the new map and search
 * both while the old one is copied.
 */
#include "nat_table/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "pins.h"
#include "state.h"
#include "synchronize.h"

#define INDICES 2

static char *index_path(const struct oxp_node *node, uint32_t number)
{
	return numbered_pin_path(node, node->folder, "nat-index-", number);
}

void close_nat_indices(struct oxp_node *node)
{
	for (int i = 0; i < INDICES; i++) {
		if (node->nat_state.index[i] > 0)
			close(node->nat_state.index[i]);
		node->nat_state.index[i] = 0;
	}
}

/* Returns a descriptor or a negative errno. */
static int index_of(struct oxp_node *node, uint32_t number)
{
	char *path;

	/* another process may have replaced the maps */
	if (node->nat_state.index_changes != node->nat->changes) {
		close_nat_indices(node);
		node->nat_state.index_changes = node->nat->changes;
	}
	if (node->nat_state.index[number] > 0)
		return node->nat_state.index[number];
	path = index_path(node, number);
	node->nat_state.index[number] = path ? bpf_obj_get(path) : -ENOMEM;
	free(path);
	return node->nat_state.index[number];
}

struct nat_key nat_key_of(const struct nat_flow *flow)
{
	struct nat_key key = {
		.client_port = flow->client_port,
		.port = flow->port,
		.protocol = flow->protocol,
	};

	memcpy(key.client, flow->client, sizeof(key.client));
	memcpy(key.vip, flow->vip, sizeof(key.vip));
	return key;
}

int64_t find_nat_flow(struct oxp_node *node, const struct nat_key *key)
{
	uint32_t flow;

	for (uint32_t i = 0; i < INDICES; i++) {
		int map = index_of(node, i);

		if (map > 0 && !bpf_map_lookup_elem(map, key, &flow))
			return flow;
	}
	return -ENOENT;
}

int enter_nat_flow(struct oxp_node *node, const struct nat_key *key,
		   uint32_t flow)
{
	int map = index_of(node, 0);

	return map < 0 ? map : bpf_map_update_elem(map, key, &flow, BPF_ANY);
}

void remove_nat_flow(struct oxp_node *node, const struct nat_key *key,
		     uint32_t flow)
{
	uint32_t known;

	for (uint32_t i = 0; i < INDICES; i++) {
		int map = index_of(node, i);

		if (map > 0 && !bpf_map_lookup_elem(map, key, &known) &&
		    known == flow)
			bpf_map_delete_elem(map, key);
	}
}

static int put_index(struct oxp_node *node, uint32_t number, int map)
{
	return pin_inner(node, MAP_NAT_INDEX, number, map,
			 index_path(node, number));
}

static void take_index(struct oxp_node *node, uint32_t number)
{
	char *path = index_path(node, number);

	bpf_map_delete_elem(node->map[MAP_NAT_INDEX], &number);
	if (path)
		unlink(path);
	free(path);
}

/* Keys that packets remove meanwhile may be added again. That is harmless: a
 * key that leads to another flow is ignored. */
static int copy_index(int from, int to)
{
	struct nat_key *before = NULL, key, next;
	int status = 0;
	uint32_t flow;

	while (!status && !bpf_map_get_next_key(from, before, &next)) {
		if (!bpf_map_lookup_elem(from, &next, &flow))
			status = bpf_map_update_elem(to, &next, &flow,
						     BPF_NOEXIST);
		if (status == -EEXIST)
			status = 0;
		key = next;
		before = &key;
	}
	return status;
}

static uint32_t size_of_index(int map)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);

	return bpf_obj_get_info_by_fd(map, &info, &length) ? 0
							   : info.max_entries;
}

static int replace_index(struct oxp_node *node, int map, int old)
{
	int status = old > 0 ? put_index(node, 1, old) : 0;

	if (!status)
		status = put_index(node, 0, map);
	if (!status && old > 0)
		status = synchronize(NULL);
	if (!status && old > 0)
		status = copy_index(old, map);
	if (!status)
		take_index(node, 1);
	return status;
}

int size_nat_index(struct oxp_node *node, uint32_t flows, char *error)
{
	LIBBPF_OPTS(bpf_map_create_opts, options,
		    .map_flags = BPF_F_NO_PREALLOC);
	int old = index_of(node, 0), map, status;

	if (!flows) {
		take_index(node, 0);
		take_index(node, 1);
		node->nat->changes++;
		return 0;
	}
	if (old > 0 && size_of_index(old) >= flows)
		return 0;
	/* keys that lead to other flows stay until they are found */
	map = bpf_map_create(BPF_MAP_TYPE_HASH, "nat_index",
			     sizeof(struct nat_key), sizeof(uint32_t),
			     flows + flows / 4, &options);
	if (map < 0)
		return failure(error, map, "cannot make an index of %u flows",
			       flows);
	status = replace_index(node, map, old);
	close(map);
	node->nat->changes++;
	return status ? failure(error, status, "cannot fill the index of flows")
		      : 0;
}

int adopt_nat_index(struct oxp_node *node, const char *from, char *error)
{
	char *there = pin_path(node, from, "nat-index-0");
	char *here = index_path(node, 0);
	int map = there && here ? bpf_obj_get(there) : -ENOMEM;
	int status = map < 0 ? map : bpf_obj_pin(map, here);

	if (map >= 0)
		close(map);
	free(there);
	free(here);
	return status ? failure(error, status,
				"cannot take over the index of flows")
		      : 0;
}
