// SPDX-License-Identifier: Apache-2.0
/* The handle: maps, memory and programs of an existing state. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "host.skel.h"
#include "load/load.h"
#include "pin_path.h"
#include "state.h"

const char *const map_names[MAPS] = {
	"settings", "entries",   "ports",        "rules",
	"flows",    "half_open", "flow_clients", "half_open_clients",
	"keys",     "listeners", "networks",     "proxies",
	"peers",    "sets",      "fragments",    "drops",
	"counters", "outcomes",  "traced",
};

static const struct load load = {.what = "the hypervisor's programs"};

int lock_host(struct oxh_host *host, char *error)
{
	while (flock(host->lock, LOCK_EX))
		if (errno != EINTR)
			return failure(error, -errno, "cannot lock %s",
				       host->folder);
	return 0;
}

void unlock_host(struct oxh_host *host)
{
	flock(host->lock, LOCK_UN);
}

static int map_memory(struct oxh_host *host, int which)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	size_t page = sysconf(_SC_PAGESIZE);

	if (bpf_obj_get_info_by_fd(host->map[which], &info, &length))
		return -errno;
	host->count[which] = info.max_entries;
	host->size[which] =
		((size_t)info.value_size * info.max_entries + page - 1) / page *
		page;
	host->memory[which] =
		mmap(NULL, host->size[which], PROT_READ | PROT_WRITE,
		     MAP_SHARED, host->map[which], 0);
	if (host->memory[which] == MAP_FAILED) {
		host->memory[which] = NULL;
		return -errno;
	}
	return 0;
}

static int open_maps(struct oxh_host *host, char *error)
{
	for (int i = 0; i < MAPS; i++) {
		char *folder = path_below(host->folder, "maps", map_names[i]);
		int status = 0;

		if (!folder)
			return failure(error, -ENOMEM, "cannot open maps");
		host->map[i] = bpf_obj_get(folder);
		free(folder);
		if (host->map[i] < 0)
			return failure(error, -errno,
				       "cannot open the map %s of %s",
				       map_names[i], host->folder);
		if (i < MAPPED)
			status = map_memory(host, i);
		if (status)
			return failure(error, status, "cannot map %s",
				       map_names[i]);
		if (i == MAP_SETTINGS &&
		    settings_of(host)->layout != HOST_LAYOUT)
			return failure(error, -EPROTO,
				       "%s has layout %u, this library has %u",
				       host->folder, settings_of(host)->layout,
				       HOST_LAYOUT);
	}
	return 0;
}

int oxh_open(const char *folder, struct oxh_host **out, char *error)
{
	struct oxh_host *host = calloc(1, sizeof(*host));
	int status = 0;

	if (!host)
		return failure(error, -ENOMEM, "cannot open %s", folder);
	catch_libbpf_messages();
	for (int i = 0; i < MAPS; i++)
		host->map[i] = -1;
	host->folder = strdup(folder);
	host->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!host->folder || host->lock < 0)
		status = failure(error, -errno, "cannot open %s", folder);
	if (!status)
		status = open_maps(host, error);
	if (status) {
		oxh_close(host);
		return status;
	}
	*out = host;
	return 0;
}

void oxh_close(struct oxh_host *host)
{
	if (!host)
		return;
	if (host->ring)
		ring_buffer__free(host->ring);
	if (host->programs)
		host__destroy(host->programs);
	for (int i = 0; i < MAPPED; i++)
		if (host->memory[i])
			munmap(host->memory[i], host->size[i]);
	for (int i = 0; i < MAPS; i++)
		if (host->map[i] >= 0)
			close(host->map[i]);
	if (host->lock >= 0)
		close(host->lock);
	free(host->folder);
	free(host);
}

int load_programs(struct oxh_host *host, char *error)
{
	struct host *object;
	int status = 0;

	if (host->programs)
		return 0;
	forget_libbpf_messages();
	object = host__open();
	if (!object)
		return load_skeleton(&load, NULL, 0, error, OXH_ERROR_LENGTH);
	object->bss->last_asked = now_in_units();
	for (int i = 0; i < MAPS && !status; i++)
		status = bpf_map__reuse_fd(find_map(object->obj, map_names[i]),
					   host->map[i]);
	status = load_skeleton(&load, object->skeleton, status, error,
			       OXH_ERROR_LENGTH);
	if (status)
		host__destroy(object);
	else
		host->programs = object;
	return status;
}

int program_of(struct oxh_host *host, uint32_t hook)
{
	switch (hook) {
	case HOST_NIC:
		return bpf_program__fd(host->programs->progs.oxp_host_nic);
	case HOST_TAP_IN:
		return bpf_program__fd(host->programs->progs.oxp_host_tap_in);
	default:
		return bpf_program__fd(host->programs->progs.oxp_host_tap_out);
	}
}
