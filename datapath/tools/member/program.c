// SPDX-License-Identifier: Apache-2.0
/* Loads the programs and fills their maps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "load/load.h"
#include "tool.h"

#define PROGRAM_MAPS_MAX 16

int program_map(int program, const char *name)
{
	struct bpf_prog_info info = {};
	__u32 ids[PROGRAM_MAPS_MAX], length = sizeof(info);

	info.map_ids = (uintptr_t)ids;
	info.nr_map_ids = PROGRAM_MAPS_MAX;
	if (bpf_obj_get_info_by_fd(program, &info, &length))
		return -1;
	for (__u32 i = 0; i < info.nr_map_ids; i++) {
		struct bpf_map_info map = {};
		int fd = bpf_map_get_fd_by_id(ids[i]);

		length = sizeof(map);
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &map, &length) &&
		    !strcmp(map.name, name))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

bool same_code(int one, int other)
{
	struct bpf_prog_info first = {}, second = {};
	__u32 length = sizeof(first);

	return !bpf_obj_get_info_by_fd(one, &first, &length) &&
	       !bpf_obj_get_info_by_fd(other, &second, &length) &&
	       !memcmp(first.tag, second.tag, sizeof(first.tag));
}

static void configure(struct member *object, const struct settings *settings)
{
	struct member_config *config =
		(struct member_config *)&object->rodata->config;

	config->mss_v4 = settings->mss_v4;
	config->mss_v6 = settings->mss_v6;
	config->any_source = !!(settings->flags & ANY_SOURCE);
	config->has_ports = settings->ports > 0;
	config->has_vip_networks = settings->vip_networks > 0;
	config->has_dscp = settings->dscps > 0;
	config->hands_on = settings->members > 0;
	if (config->hands_on)
		find_sockets(config);
}

static int put(struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY) ? -1
									  : 0;
}

/* The map returns the longest prefix, so each network also gets the purposes of
 * the networks that contain it. */
static int put_networks(struct member *object, const struct settings *settings,
			const struct member_network *networks, __u32 count)
{
	int status = 0;

	for (__u32 i = 0; i < count; i++) {
		__u8 what = 0;

		if (contains(settings->node, settings->nodes, &networks[i]))
			what |= MEMBER_NETWORK_NODE;
		if (contains(settings->member, settings->members, &networks[i]))
			what |= MEMBER_NETWORK_MEMBER;
		status |= put(object->maps.nodes, &networks[i], &what);
	}
	return status;
}

static int fill(struct member *object, const struct settings *settings)
{
	__u8 vip = MEMBER_ADDRESS_VIP, own = MEMBER_ADDRESS_OWN;
	int status = 0;

	for (__u32 i = 0; i < settings->vips; i++)
		status |= put(object->maps.addresses, &settings->vip[i], &vip);
	for (__u32 i = 0; i < settings->vip_networks; i++)
		status |= put(object->maps.vip_networks,
			      &settings->vip_network[i], &vip);
	for (__u32 i = 0; i < settings->owns; i++)
		status |= put(object->maps.addresses, &settings->own[i], &own);
	status |=
		put_networks(object, settings, settings->node, settings->nodes);
	status |= put_networks(object, settings, settings->member,
			       settings->members);
	for (__u32 i = 0; i < settings->ports; i++) {
		const struct port_rule *rule = &settings->port[i];
		struct member_port_key local = rule->key;

		local.port = rule->local;
		if (!rule->answers_only)
			status |= put(object->maps.ports_in, &rule->key,
				      &rule->local);
		status |= put(object->maps.ports_out, &local, &rule->key.port);
	}
	for (__u32 i = 0; i < settings->dscps; i++) {
		const struct dscp_rule *rule = &settings->dscp[i];
		struct member_dscp value = {.vip = rule->vip, .used = 1};
		__u32 index =
			rule->dscp + (is_v4(&rule->vip) ? 0 : MEMBER_DSCPS);

		status |= put(object->maps.dscp, &index, &value);
	}
	return status ? -errno : 0;
}

/* Binds a separate map to the programs, which do not use it. */
static int bind_record(struct member *object, const struct record *record)
{
	int programs[] = {
		bpf_program__fd(object->progs.oxp_member_xdp),
		bpf_program__fd(object->progs.oxp_member_in),
		bpf_program__fd(object->progs.oxp_member_out),
	};
	__u32 zero = 0;
	int status = 0, map;

	map = bpf_map_create(BPF_MAP_TYPE_ARRAY, RECORD_MAP, sizeof(zero),
			     sizeof(*record), 1, NULL);
	if (map < 0)
		return map;
	if (bpf_map_update_elem(map, &zero, record, BPF_ANY))
		status = -errno;
	for (int i = 0; i < 3 && !status; i++)
		if (bpf_prog_bind_map(programs[i], map, NULL))
			status = -errno;
	close(map);
	return status;
}

int write_record(int program, const struct record *record)
{
	int map = program_map(program, RECORD_MAP);
	__u32 zero = 0;
	int status = map < 0 ? -ENOENT : 0;

	if (!status && bpf_map_update_elem(map, &zero, record, BPF_ANY))
		status = -errno;
	if (map >= 0)
		close(map);
	return status;
}

/* Makes `map` the one of that name that `program` uses. */
static int share_map(struct bpf_map *map, int program)
{
	int fd = program_map(program, bpf_map__name(map));
	int status = fd < 0 ? -ENOENT : bpf_map__reuse_fd(map, fd);

	if (fd >= 0)
		close(fd);
	return status;
}

/* Keeps the counters if they fit; another version may have others. */
static void keep_counters(struct member *object, int program)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);
	int fd = program_map(program, "counters");

	if (fd < 0)
		return;
	if (!bpf_obj_get_info_by_fd(fd, &info, &length) &&
	    info.max_entries == MEMBER_COUNTERS)
		share_map(object->maps.counters, program);
	close(fd);
}

static const struct load load = {.what = "the member's programs"};

struct member *load_programs(const struct settings *settings,
			     const struct undo *undo, int old)
{
	struct record record = {.version = RECORD_VERSION,
				.undo = *undo,
				.settings = *settings};
	struct member *object = member__open();
	char text[LOAD_TEXT];
	int status;

	if (object) {
		configure(object, settings);
		if (old >= 0)
			keep_counters(object, old);
	}
	status = load_skeleton(&load, object ? object->skeleton : NULL, 0, text,
			       sizeof(text));
	if (status) {
		complain("%s", text);
		member__destroy(object);
		return NULL;
	}
	status = fill(object, settings);
	if (!status)
		status = bind_record(object, &record);
	if (!status)
		return object;
	complain_status(status, "the maps of the programs");
	member__destroy(object);
	return NULL;
}

static int share_maps(struct member *object, const struct settings *settings,
		      int attached)
{
	int status = share_map(object->maps.addresses, attached);

	if (!status)
		status = share_map(object->maps.nodes, attached);
	if (!status && settings->vip_networks)
		status = share_map(object->maps.vip_networks, attached);
	if (!status && settings->ports)
		status = share_map(object->maps.ports_in, attached);
	if (!status && settings->dscps)
		status = share_map(object->maps.dscp, attached);
	return status;
}

struct member *load_copy(const struct settings *settings, int attached,
			 char *text, size_t length)
{
	struct member *object = member__open();
	int status = 0;

	if (object) {
		configure(object, settings);
		status = share_maps(object, settings, attached);
	}
	if (!load_skeleton(&load, object ? object->skeleton : NULL, status,
			   text, length))
		return object;
	member__destroy(object);
	return NULL;
}

int read_counters(int program, uint64_t values[MEMBER_COUNTERS])
{
	int cpus = libbpf_num_possible_cpus();
	int map = program_map(program, "counters");
	uint64_t *each = cpus > 0 ? calloc(cpus, sizeof(*each)) : NULL;
	int status = map < 0 || !each ? -1 : 0;

	for (__u32 i = 0; i < MEMBER_COUNTERS && !status; i++) {
		values[i] = 0;
		status = bpf_map_lookup_elem(map, &i, each) ? -1 : 0;
		for (int cpu = 0; cpu < cpus; cpu++)
			values[i] += each[cpu];
	}
	free(each);
	if (map >= 0)
		close(map);
	return status;
}
