// SPDX-License-Identifier: Apache-2.0
/*
 * What is pinned where:
 *   <pin directory>/maps/<name of map>
 *   <pin directory>/links/<ifindex>
 * The maps appear together: they are pinned in maps-new, which is renamed.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "forward.skel.h"
#include "internal.h"

const char *const map_names[MAPS] = {
	[MAP_CONFIG] = "config",
	[MAP_SERVICES_V4] = "services_v4",
	[MAP_VIPS_V4] = "vips_v4",
	[MAP_SERVICES] = "services",
	[MAP_TABLES] = "tables",
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

static void remove_folder(const struct oxp_node *node, const char *folder)
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

static int rename_folder(const struct oxp_node *node, const char *from,
			 const char *to)
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
				 "%s has map layout %u, this library needs %u",
				 node->pin_directory, *value, OXP_LAYOUT);
	else if (info.value_size != sizeof(struct node_config))
		status = failure(error, -EPROTO,
				 "the config map has %u bytes instead of %zu",
				 info.value_size, sizeof(struct node_config));
	free(value);
	return status;
}

static int map_memory(int map, size_t length, void *out, char *error)
{
	void *memory;

	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	if (memory == MAP_FAILED)
		return failure(error, -errno, "cannot mmap %zu bytes of a map",
			       length);
	*(void **)out = memory;
	return 0;
}

static int map_all(struct oxp_node *node, char *error)
{
	struct node_config *config;
	int status;

	status = map_memory(node->map[MAP_CONFIG], sizeof(*config),
			    &node->config, error);
	if (status)
		return status;
	config = node->config;
	node->block_size = BLOCK_SIZE(config->slots_max);
	node->entries_length = config->services_max * sizeof(*node->entries);
	node->blocks_length = 2 * config->services_max * node->block_size;
	status = map_memory(node->map[MAP_SERVICES], node->entries_length,
			    &node->entries, error);
	if (status)
		return status;
	return map_memory(node->map[MAP_TABLES], node->blocks_length,
			  &node->blocks, error);
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
			status = failure(error, status, "cannot open %s", path);
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

/* Creating */

static int check_bpffs(const char *path, char *error)
{
	struct statfs info;

	if (statfs(path, &info))
		return failure(error, -errno, "cannot look at %s", path);
	if ((unsigned long)info.f_type != BPF_FS_MAGIC)
		return failure(error, -EINVAL, "%s is not on a BPF file system",
			       path);
	return 0;
}

static int make_pin_directory(const struct oxp_node *node, char *error)
{
	bool made = mkdir(node->pin_directory, 0700) == 0;
	int status;

	if (!made && errno != EEXIST)
		return failure(error, -errno, "cannot create %s",
			       node->pin_directory);
	status = check_bpffs(node->pin_directory, error);
	if (status && made)
		rmdir(node->pin_directory);
	return status;
}

static int sizes(const struct oxp_options *options, struct node_config *config,
		 char *error)
{
	__u32 services = options->services_max ? options->services_max : 1024;
	__u64 members = options->members_max ? options->members_max
					     : 16 * (__u64)services;
	__u32 slots =
		options->slots_max ? options->slots_max : OXP_SLOTS_DEFAULT;

	if (services > 1 << 20 || members > 1 << 28)
		return failure(error, -EINVAL, "%u services, %llu members",
			       services, members);
	if (slots < 2 || slots > OXP_SLOTS_LIMIT)
		return failure(error, -EINVAL, "tables of %u slots", slots);
	*config = (struct node_config){
		.layout = OXP_LAYOUT,
		.services_max = services,
		.members_max = members,
		.slots_max = slots,
		.epoch = 1,
		.changes = 1,
	};
	return 0;
}

static int pin_maps(const struct oxp_node *node, struct forward *object)
{
	int status = 0;

	for (int i = 0; i < MAPS && !status; i++) {
		char *path = pin_path(node, "maps-new", map_names[i]);
		struct bpf_map *map =
			bpf_object__find_map_by_name(object->obj, map_names[i]);

		status = path ? bpf_obj_pin(bpf_map__fd(map), path) : -ENOMEM;
		free(path);
	}
	return status;
}

static int fill_new(const struct oxp_node *node, struct forward *object,
		    const struct node_config *config, char *error)
{
	__u32 zero = 0;
	int status;
	char *path;

	bpf_map__set_max_entries(object->maps.services_v4,
				 config->services_max);
	bpf_map__set_max_entries(object->maps.vips_v4, config->services_max);
	bpf_map__set_max_entries(object->maps.services, config->services_max);
	bpf_map__set_max_entries(object->maps.tables, 2 * config->services_max);
	bpf_map__set_value_size(object->maps.tables,
				BLOCK_SIZE(config->slots_max));
	bpf_map__set_max_entries(object->maps.service_counters,
				 config->services_max);
	bpf_map__set_max_entries(object->maps.member_counters,
				 config->members_max);
	object->rodata->slots_max = config->slots_max;

	status = forward__load(object);
	if (status)
		return failure(error, status, "cannot load the datapath (%s)",
			       last_libbpf_message());
	status = bpf_map_update_elem(bpf_map__fd(object->maps.config), &zero,
				     config, BPF_ANY);
	if (status)
		return failure(error, status, "cannot write the config map");

	remove_folder(node, "maps-new"); /* of one who died here */
	path = pin_path(node, "maps-new", NULL);
	status = path && mkdir(path, 0700) ? -errno : 0;
	free(path);
	if (!status)
		status = pin_maps(node, object);
	if (!status)
		status = rename_folder(node, "maps-new", "maps");
	if (status) {
		remove_folder(node, "maps-new");
		return failure(error, status, "cannot pin maps in %s",
			       node->pin_directory);
	}
	return 0;
}

int create_pins(struct oxp_node *node, const struct oxp_options *options,
		char *error)
{
	struct node_config config;
	struct forward *object;
	int status;

	status = sizes(options, &config, error);
	if (!status)
		status = make_pin_directory(node, error);
	if (status)
		return status;
	forget_libbpf_messages();
	object = forward__open();
	if (!object)
		return failure(error, -errno, "cannot open the BPF object (%s)",
			       last_libbpf_message());
	status = fill_new(node, object, &config, error);
	forward__destroy(object);
	return status;
}
