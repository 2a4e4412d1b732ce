// SPDX-License-Identifier: Apache-2.0
/*
 * What is pinned where:
 *   <pin directory>/maps/<name of map>
 *   <pin directory>/links/<ifindex>
 *   <pin directory>/probes-<layout>/<name of map>, see probe.c
 * The maps appear together: they are pinned in maps-new, which is renamed, or
 * changes places with the maps of another layout (upgrade.c). Whoever holds
 * the lock and finds a maps-new that is not its own removes it.
 */
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

#include "internal.h"
#include "probe.h"

const char *const map_names[MAPS] = {
	[MAP_CONFIG] = "config",
	[MAP_UPLINKS] = "uplinks",
	[MAP_DEVICES] = "devices",
	[MAP_LOOKUP_V4] = "lookup_v4",
	[MAP_LOOKUP_V6] = "lookup_v6",
	[MAP_VIPS] = "vips",
	[MAP_SERVICES] = "services",
	[MAP_TABLES] = "tables",
	[MAP_AGES] = "ages",
	[MAP_FLOWS] = "flows",
	[MAP_FRAGMENTS] = "fragments",
	[MAP_ALLOWED_V4] = "allowed_v4",
	[MAP_ALLOWED_V6] = "allowed_v6",
	[MAP_SOURCES] = "sources",
	[MAP_QUIC_SERVERS] = "quic_servers",
	[MAP_ICMP_BUDGET] = "icmp_budget",
	[MAP_SERVICE_COUNTERS] = "service_counters",
	[MAP_MEMBER_COUNTERS] = "member_counters",
	[MAP_OUTCOMES] = "outcomes",
};

char *pin_path(const struct oxp_node *node, const char *folder,
	       const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s%s%s", node->pin_directory, folder,
		     name ? "/" : "", name ? name : "") < 0)
		return NULL;
	return path;
}

void remove_folder(const struct oxp_node *node, const char *folder)
{
	char *path = pin_path(node, folder, NULL);
	DIR *directory = path ? opendir(path) : NULL;
	struct dirent *one;

	while (directory && (one = readdir(directory)))
		unlinkat(dirfd(directory), one->d_name, 0);
	if (directory)
		closedir(directory);
	if (path)
		rmdir(path);
	free(path);
}

int rename_folder(const struct oxp_node *node, const char *from, const char *to)
{
	char *old = pin_path(node, from, NULL);
	char *new = pin_path(node, to, NULL);
	int status = -ENOMEM;

	if (old && new)
		status = rename(old, new) ? -errno : 0;
	free(old);
	free(new);
	return status;
}

int exchange_folder(const struct oxp_node *node, const char *folder)
{
	char *old = pin_path(node, "maps", NULL);
	char *new = pin_path(node, folder, NULL);
	int status = -ENOMEM;

	if (old && new)
		status =
			renameat2(AT_FDCWD, new, AT_FDCWD, old, RENAME_EXCHANGE)
				? -errno
				: 0;
	free(old);
	free(new);
	return status;
}

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

/* Opening */

/* The first word of the config map is the layout, in every layout. */
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
	node->block_size = BLOCK_SIZE(node->config->slots_max);
	node->ages_size = AGES_SIZE(node->config->slots_max);
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
		status = map_memory(node, MAP_TABLES,
				    2 * services * node->block_size,
				    &node->blocks, error);
	if (!status)
		status = map_memory(node, MAP_AGES, services * node->ages_size,
				    &node->ages, error);
	return status;
}

void unmap_all(struct oxp_node *node)
{
	for (int i = 0; i < MAPS; i++)
		if (node->mapping[i].memory)
			munmap(node->mapping[i].memory,
			       node->mapping[i].length);
}

int open_pins(struct oxp_node *node, const char *folder, char *error)
{
	char *path = pin_path(node, folder, NULL);
	int status = -ENOMEM;

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
		if (node->map[i] < 0) {
			status = -errno;
			/* the folder appears whole: another layout has other
			 * maps, and ENOENT would say that there is none */
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
