// SPDX-License-Identifier: Apache-2.0
/* Opening a node's pinned maps and mapping them into memory. */
#include "node/maps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "nat_table/index.h"
#include "nat_table/tables.h"
#include "pins.h"
#include "probe.h"
#include "state.h"
#include "table/segments.h"

static int id_of_map(int map, uint32_t *id)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	int status = bpf_obj_get_info_by_fd(map, &info, &length);

	*id = info.id;
	return status;
}

int is_in_force(struct oxp_node *node)
{
	char *path = pin_path(node, "maps", map_names[MAP_CONFIG]);
	int map = path ? bpf_obj_get(path) : -ENOMEM, status;
	uint32_t own, pinned;

	free(path);
	if (map < 0)
		return map == -ENOENT ? 0 : map;
	status = id_of_map(map, &pinned);
	if (!status)
		status = id_of_map(node->map[MAP_CONFIG], &own);
	close(map);
	return status ? status : own == pinned;
}

void remove_pins(struct oxp_node *node)
{
	remove_folder(node, "links");
	remove_folder(node, PROBES_FOLDER_NEW);
	remove_folder(node, PROBES_FOLDER);
	remove_folder(node, "maps-new");
	rename_folder(node, "maps", "maps-new");
	remove_folder(node, "maps-new");
	rmdir(node->pin_directory);
}

/* The first word of the config map is the layout version in every layout. */
static int read_layout(int map, uint32_t *size)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info), zero = 0, *value;
	int status;

	status = bpf_obj_get_info_by_fd(map, &info, &length);
	if (status)
		return status;
	*size = info.value_size;
	if (info.value_size < sizeof(*value))
		return 0;
	value = calloc(1, info.value_size + 8);
	if (!value)
		return -ENOMEM;
	status = bpf_map_lookup_elem(map, &zero, value);
	if (!status)
		status = *value;
	free(value);
	return status;
}

int pinned_layout(const char *pin_directory)
{
	uint32_t size;
	int map, status;
	char *path;

	if (asprintf(&path, "%s/maps/%s", pin_directory,
		     map_names[MAP_CONFIG]) < 0)
		return -ENOMEM;
	map = bpf_obj_get(path);
	free(path);
	if (map < 0)
		return map;
	status = read_layout(map, &size);
	close(map);
	return status;
}

static int check_layout(struct oxp_node *node, char *error)
{
	uint32_t size;
	int layout = read_layout(node->map[MAP_CONFIG], &size);

	if (layout < 0)
		return failure(error, layout, "cannot read the config map");
	if (layout != OXP_LAYOUT)
		return failure(error, -EPROTO,
			       "%s has map layout %d, this library needs "
			       "layout %d: \"octavia-xdp-ctl upgrade\" takes "
			       "all over without losing a packet; or use "
			       "liboctavia_xdp.so.%d",
			       node->pin_directory, layout, OXP_LAYOUT, layout);
	if (size != sizeof(struct node_config))
		return failure(error, -EPROTO,
			       "the config map has %u bytes instead of %zu",
			       size, sizeof(struct node_config));
	return 0;
}

static int map_memory(struct oxp_node *node, enum map map, size_t length,
		      void *out, char *error)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED,
			    node->map[map], 0);

	if (memory == MAP_FAILED)
		return failure(error, -errno,
			       "cannot mmap %zu bytes of the map %s", length,
			       map_names[map]);
	node->mapping[map].memory = memory;
	node->mapping[map].length = length;
	*(void **)out = memory;
	return 0;
}

static int map_counters(struct oxp_node *node, char *error)
{
	const struct node_config *config = node->config;
	int status = map_memory(
		node, MAP_SERVICE_COUNTERS,
		config->cpus * slice_size(config->services_max, SERVICE_PARTS),
		&node->service_counters, error);

	if (!status)
		status = map_memory(
			node, MAP_MEMBER_COUNTERS,
			config->cpus *
				slice_size(config->members_max, MEMBER_PARTS),
			&node->member_counters, error);
	if (!status)
		status = map_memory(node, MAP_PENDING_COUNTS,
				    config->cpus * sizeof(*node->pending),
				    &node->pending, error);
	return status;
}

static int map_all(struct oxp_node *node, char *error)
{
	size_t services, buckets;
	int status;

	status = map_memory(node, MAP_CONFIG, sizeof(*node->config),
			    &node->config, error);
	if (status)
		return status;
	services = node->config->services_max;
	buckets = (size_t)node->config->lookup_mask + 1;
	status = map_memory(node, MAP_UPLINKS, 2 * sizeof(*node->uplinks),
			    &node->uplinks, error);
	if (!status)
		status = map_memory(node, MAP_LOOKUP_V4,
				    buckets * sizeof(*node->lookup_v4),
				    &node->lookup_v4, error);
	if (!status)
		status = map_memory(node, MAP_LOOKUP_V6,
				    buckets * sizeof(*node->lookup_v6),
				    &node->lookup_v6, error);
	if (!status)
		status = map_memory(node, MAP_VIPS,
				    services * sizeof(*node->vips), &node->vips,
				    error);
	if (!status)
		status = map_memory(node, MAP_SERVICES,
				    services * sizeof(*node->entries),
				    &node->entries, error);
	if (!status)
		status = map_memory(node, MAP_WATCHED,
				    WATCH_LINES * sizeof(*node->watched),
				    &node->watched, error);
	if (!status)
		status = map_memory(node, MAP_NAT, sizeof(*node->nat),
				    &node->nat, error);
	if (!status)
		status = map_memory(node, MAP_NAT_SERVICES,
				    services * sizeof(*node->nat_services),
				    &node->nat_services, error);
	if (!status)
		status = map_counters(node, error);
	return status ? status : map_segments(node, error);
}

void unmap_all(struct oxp_node *node)
{
	for (int i = 0; i < MAPS; i++)
		if (node->mapping[i].memory)
			munmap(node->mapping[i].memory,
			       node->mapping[i].length);
	unmap_segments(node);
	forget_nat_tables(node);
	close_nat_indices(node);
}

int open_pins(struct oxp_node *node, const char *folder, char *error)
{
	char *path = pin_path(node, folder, NULL);
	int status = -ENOMEM;

	node->folder = folder;

	if (path)
		status = access(path, F_OK) ? -errno : 0;
	free(path);
	if (status)
		return failure(error, status, "no datapath is pinned in %s",
			       node->pin_directory);
	for (int i = 0; i < MAPS; i++) {
		path = pin_path(node, folder, map_names[i]);
		if (!path)
			return failure(error, -ENOMEM, "cannot open the maps");
		node->map[i] = bpf_obj_get(path);
		status = node->map[i] < 0 ? -errno : 0;
		if (status) {
			/* the folder appears complete: another layout has other
			 * maps, and ENOENT would mean that there are none */
			if (status == -ENOENT)
				status = -EPROTO;
			status = failure(
				error, status, "cannot open %s%s", path,
				status == -EPERM ? " (CAP_BPF is needed)" : "");
			free(path);
			return status;
		}
		free(path);
		if (i == MAP_CONFIG) {
			status = check_layout(node, error);
			if (status)
				return status;
		}
	}
	return map_all(node, error);
}
