// SPDX-License-Identifier: Apache-2.0
/*
 * Pins:
 *   <folder>/maps/<name of map>
 *   <folder>/links/<hook>-<ifindex>
 * The maps appear at once: they are pinned in maps-new, which is renamed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "host.skel.h"
#include "load/load.h"
#include "pin_path.h"
#include "state.h"
#include "synchronize.h"

static const struct load load = {.what = "the hypervisor's maps"};

/* tcx needs Linux 6.6, changes of rules need membarrier(). */
static int check_kernel(char *error)
{
	unsigned int major, minor;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return failure(error, -EOPNOTSUPP,
			       "cannot read the kernel's "
			       "release");
	if (major < 6 || (major == 6 && minor < 6))
		return failure(
			error, -EOPNOTSUPP,
			"Linux %s has no tcx, which members in VMs need: "
			"Linux 6.6 is the first that has it",
			name.release);
	if (!can_synchronize())
		return failure(
			error, -ENOSYS,
			"the kernel offers no global membarrier, as with "
			"nohz_full: rules could not be changed");
	return 0;
}

/* The power of two, at least `least`, that has room for twice as many flows. */
static uint32_t sets_for(uint32_t flows, uint32_t least)
{
	uint32_t sets = least;

	while (sets < (1U << 24) &&
	       (uint64_t)sets * HOST_FLOW_WAYS < 2ULL * flows)
		sets *= 2;
	return sets;
}

struct geometry {
	uint32_t entries, ports, flow_sets, half_open_sets;
};

static int geometry_of(const struct oxh_sizes *sizes, struct geometry *out,
		       char *error)
{
	static const struct oxh_sizes none;

	if (!sizes)
		sizes = &none;
	*out = (struct geometry){
		.entries = sizes->entries ? sizes->entries : 4096,
		.ports = sizes->ports ? sizes->ports : 512,
		.flow_sets = sets_for(sizes->flows ? sizes->flows : 1 << 20, 2),
		.half_open_sets = sets_for(
			(sizes->half_open ? sizes->half_open : 1 << 17) / 2,
			2 * HOST_HALF_OPEN_PARTS),
	};
	if (out->entries > HOST_NO_PLACE || out->ports > HOST_NO_PLACE)
		return failure(error, -E2BIG,
			       "%u entries and %u ports, the limit is %u",
			       out->entries, out->ports, HOST_NO_PLACE);
	return 0;
}

static int set_sizes(struct host *object, const struct geometry *geometry)
{
	const struct {
		struct bpf_map *map;
		uint32_t entries;
	} sizes[] = {
		{object->maps.entries, geometry->entries},
		{object->maps.keys, geometry->entries},
		{object->maps.listeners, geometry->entries},
		{object->maps.counters, geometry->entries},
		{object->maps.ports, geometry->ports},
		{object->maps.rules, 2 * geometry->ports},
		{object->maps.flows, geometry->flow_sets},
		{object->maps.half_open, geometry->half_open_sets},
		{object->maps.flow_clients, geometry->flow_sets},
		{object->maps.half_open_clients, geometry->half_open_sets},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		int status = bpf_map__set_max_entries(sizes[i].map,
						      sizes[i].entries);

		if (status)
			return status;
	}
	return 0;
}

static int write_settings(int map, const struct geometry *geometry)
{
	struct host_settings settings = {
		.layout = HOST_LAYOUT,
		.flow_sets = geometry->flow_sets,
		.half_open_sets = geometry->half_open_sets,
		.tcp_idle = 7440,
		.udp_idle = 180,
		.closing_idle = 120,
		.half_open_idle = 60,
	};
	uint32_t zero = 0;

	if (getrandom(settings.seed, sizeof(settings.seed), 0) !=
	    sizeof(settings.seed))
		return -EIO;
	return bpf_map_update_elem(map, &zero, &settings, BPF_ANY) ? -errno : 0;
}

static int pin_all(struct host *object, const char *folder)
{
	char *from = path_below(folder, "maps-new", NULL);
	char *to = path_below(folder, "maps", NULL);
	int status = from && to ? 0 : -ENOMEM;

	remove_folder_below(folder, "maps-new"); /* of a process that died */
	if (!status && mkdir(from, 0700))
		status = -errno;
	for (int i = 0; !status && i < MAPS; i++) {
		char *path = path_below(from, map_names[i], NULL);
		struct bpf_map *map = find_map(object->obj, map_names[i]);

		status = !path ? -ENOMEM : bpf_obj_pin(bpf_map__fd(map), path);
		free(path);
	}
	if (!status && rename(from, to))
		status = -errno;
	if (status)
		remove_folder_below(folder, "maps-new");
	free(from);
	free(to);
	return status;
}

static int make_folder(const char *folder, char *error)
{
	char *links = path_below(folder, "links", NULL);
	int status = 0;

	if (!links)
		return failure(error, -ENOMEM, "cannot make %s", folder);
	if ((mkdir(folder, 0700) && errno != EEXIST) ||
	    (mkdir(links, 0700) && errno != EEXIST))
		status = failure(error, -errno, "cannot make %s", folder);
	free(links);
	return status;
}

static int create_locked(const char *folder, const struct geometry *geometry,
			 char *error)
{
	struct host *object;
	int status;

	catch_libbpf_messages();
	forget_libbpf_messages();
	object = host__open();
	if (!object)
		return load_skeleton(&load, NULL, 0, error, OXH_ERROR_LENGTH);
	/* maps only: oxh_attach() loads the programs */
	bpf_program__set_autoload(object->progs.oxp_host_nic, false);
	bpf_program__set_autoload(object->progs.oxp_host_tap_in, false);
	bpf_program__set_autoload(object->progs.oxp_host_tap_out, false);
	status = load_skeleton(&load, object->skeleton,
			       set_sizes(object, geometry), error,
			       OXH_ERROR_LENGTH);
	if (!status) {
		status = write_settings(
			bpf_map__fd(
				find_map(object->obj, map_names[MAP_SETTINGS])),
			geometry);
		if (!status)
			status = pin_all(object, folder);
		if (status)
			failure(error, status, "cannot pin maps in %s", folder);
	}
	host__destroy(object);
	return status ? status : 1;
}

int oxh_create(const char *folder, const struct oxh_sizes *sizes, char *error)
{
	struct oxh_host host = {.folder = (char *)folder}, *opened;
	struct geometry geometry;
	int status = check_kernel(error);
	char *maps;

	if (!status)
		status = geometry_of(sizes, &geometry, error);
	if (!status)
		status = make_folder(folder, error);
	if (status)
		return status;
	host.lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host.lock < 0)
		return failure(error, -errno, "cannot open %s", folder);
	maps = path_below(folder, "maps", NULL);
	status = lock_host(&host, error);
	if (!status && maps && !access(maps, F_OK)) {
		status = oxh_open(folder, &opened, error);
		if (!status)
			oxh_close(opened);
	} else if (!status) {
		status = create_locked(folder, &geometry, error);
	}
	free(maps);
	close(host.lock);
	return status;
}

/* Links and maps are freed with their pins. */
int oxh_remove(const char *folder, char *error)
{
	if (access(folder, F_OK))
		return errno == ENOENT ? 1
				       : failure(error, -errno,
						 "cannot look at %s", folder);
	remove_folder_below(folder, "links");
	remove_folder_below(folder, "maps-new");
	remove_folder_below(folder, "maps");
	if (rmdir(folder))
		return failure(error, -errno, "cannot remove %s", folder);
	return 0;
}
