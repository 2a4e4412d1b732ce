// SPDX-License-Identifier: Apache-2.0
/*
 * What is pinned where:
 *   <pin directory>/maps/<name of map>
 *   <pin directory>/links/<ifindex>
 *   <pin directory>/probes-<layout>/<name of map>, see probe.c
 * The maps appear together: they are pinned in maps-new, which is renamed.
 */
#include <dirent.h>
#include <errno.h>
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

static int check_layout(struct oxp_node *node, char *error)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info), zero = 0, *value;
	int status;

	status = bpf_obj_get_info_by_fd(node->map[MAP_CONFIG], &info, &length);
	if (status)
		return failure(error, status,
			       "cannot ask about the config map");
	if (info.value_size < sizeof(*value) ||
	    !(value = calloc(1, info.value_size + 8)))
		return failure(error, -EPROTO, "the config map has %u bytes",
			       info.value_size);
	status = bpf_map_lookup_elem(node->map[MAP_CONFIG], &zero, value);
	if (status)
		status = failure(error, status, "cannot read the config map");
	else if (*value != OXP_LAYOUT)
		status = failure(error, -EPROTO,
				 "%s has map layout %u, this library needs "
				 "layout %u: use the version that made it, or "
				 "remove the directory and set all up again "
				 "(nothing is forwarded in between)",
				 node->pin_directory, *value, OXP_LAYOUT);
	else if (info.value_size != sizeof(struct node_config))
		status = failure(error, -EPROTO,
				 "the config map has %u bytes instead of %zu",
				 info.value_size, sizeof(struct node_config));
	free(value);
	return status;
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

int open_pins(struct oxp_node *node, char *error)
{
	char *path = pin_path(node, "maps", NULL);
	int status = -ENOMEM;

	if (path)
		status = access(path, F_OK) ? -errno : 0;
	free(path);
	if (status)
		return failure(error, status, "no datapath is pinned in %s",
			       node->pin_directory);
	for (int i = 0; i < MAPS; i++) {
		path = pin_path(node, "maps", map_names[i]);
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
