// SPDX-License-Identifier: Apache-2.0
/* Tables of NAT flows: maps created and removed with the addresses of pools,
 * pinned with the other maps, and mapped by each process that reads them. */
#include "nat_table/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "pins.h"
#include "state.h"

static char *table_path(const struct oxp_node *node, uint32_t number)
{
	return numbered_pin_path(node, node->folder, "nat-", number);
}

void forget_nat_tables(struct oxp_node *node)
{
	for (uint32_t i = 0; i < NAT_TABLES; i++) {
		if (node->nat_state.table[i])
			munmap(node->nat_state.table[i], NAT_TABLE_SIZE);
		node->nat_state.table[i] = NULL;
	}
}

static void *map_table(struct oxp_node *node, uint32_t number)
{
	char *path = table_path(node, number);
	int map = path ? bpf_obj_get(path) : -ENOMEM;
	void *memory;

	free(path);
	if (map < 0)
		return NULL;
	memory = mmap(NULL, NAT_TABLE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
		      map, 0);
	close(map);
	return memory == MAP_FAILED ? NULL : memory;
}

static void *table_of(struct oxp_node *node, uint32_t number)
{
	/* another process may have replaced the maps */
	if (node->nat_state.changes != node->nat->changes) {
		forget_nat_tables(node);
		node->nat_state.changes = node->nat->changes;
	}
	if (!node->nat_state.table[number])
		node->nat_state.table[number] = map_table(node, number);
	return node->nat_state.table[number];
}

struct nat_flow *nat_table(struct oxp_node *node, uint32_t number)
{
	if (number >= NAT_ADDRESSES || !node->nat->length[number])
		return NULL;
	return table_of(node, number);
}

struct nat_flow *nat_flow_at(struct oxp_node *node, uint32_t flow)
{
	struct nat_flow *table = nat_table(node, flow >> 16);

	return table ? &table[flow & 0xffff] : NULL;
}

struct nat_group *nat_groups(struct oxp_node *node)
{
	return node->config->nat_addresses ? table_of(node, NAT_GROUPS_TABLE)
					   : NULL;
}

int make_nat_table(struct oxp_node *node, uint32_t number, char *error)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "nat", sizeof(uint32_t),
				 NAT_TABLE_SIZE, 1, &options);
	int status;

	if (map < 0)
		return failure(error, map,
			       "cannot make room for the flows of an address");
	status = pin_inner(node, MAP_NAT_TABLES, number, map,
			   table_path(node, number));
	close(map);
	if (status)
		return failure(error, status, "cannot pin a table of NAT");
	node->nat->changes++;
	return 0;
}

static int adopt_table(struct oxp_node *node, const char *from, uint32_t number)
{
	char *there = numbered_pin_path(node, from, "nat-", number);
	char *here = table_path(node, number);
	int map, status;

	map = there && here ? bpf_obj_get(there) : -ENOMEM;
	status = map < 0 ? map : bpf_obj_pin(map, here);
	if (map >= 0)
		close(map);
	free(there);
	free(here);
	return status;
}

int adopt_nat_tables(struct oxp_node *node, const char *from, char *error)
{
	int status = 0;

	for (uint32_t i = 0; i < NAT_ADDRESSES && !status; i++)
		if (node->nat->length[i])
			status = adopt_table(node, from, i);
	if (!status)
		status = adopt_table(node, from, NAT_GROUPS_TABLE);
	return status ? failure(error, status,
				"cannot take over the flows of NAT")
		      : 0;
}

void remove_nat_table(struct oxp_node *node, uint32_t number)
{
	char *path = table_path(node, number);

	bpf_map_delete_elem(node->map[MAP_NAT_TABLES], &number);
	if (path)
		unlink(path);
	free(path);
	node->nat->changes++;
}
