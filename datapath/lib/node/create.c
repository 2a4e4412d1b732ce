// SPDX-License-Identifier: Apache-2.0
/*
 * Creating the state. Memory with C CPUs; tests/test_scale.c has the same
 * figures:
 *   service   101 + 16 + 48 C bytes, and its share of the lookup tables
 *   its table in segments of 8 MiB: with M members and L slots two times
 *             64 + 96 M + 2 L + L / 8 bytes, and L. Beyond 255 members an
 *             element has two bytes, and 4 L replaces 2 L. 10 members,
 *             1,021 slots: 7.4 kB
 *   member    32 C bytes and 16 in the index of QUIC servers, of the next
 *             power of two; 8 more in each process that sets services
 *   flow      8 bytes
 *   lookup    192 bytes for each of the next power of two to 1.6 buckets a
 *             service: eight places for each key of a service or VIP
 * All but tables, networks, QUIC servers and devices is allocated when the
 * state is created. oxp_info_get() returns the sum according to the kernel.
 */
#include "node/create.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "clock.h"
#include "error.h"
#include "forward.skel.h"
#include "load/load.h"
#include "pins.h"
#include "program/load.h"
#include "state.h"
#include "table/counters.h"

#define SERVICES_DEFAULT 1024
#define SERVICES_LIMIT (1U << 20)
#define MEMBERS_LIMIT (1U << 24) /* the verifier can track this many places */
#define FLOWS_DEFAULT (1U << 20)
#define FLOWS_LIMIT (1U << 30)

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

static uint32_t buckets(uint32_t services)
{
	uint64_t wanted = services * 8ULL / BUCKET_WAYS;
	uint32_t power = 16;

	while (power < wanted)
		power *= 2;
	return power;
}

int draw_seed(uint64_t *seed)
{
	return getrandom(seed, sizeof(*seed), 0) == sizeof(*seed) ? 0 : -errno;
}

int size_state(const struct oxp_options *options, struct node_config *config,
	       char *error)
{
	__u32 services = options->services_max ? options->services_max
					       : SERVICES_DEFAULT;
	__u64 members = options->members_max ? options->members_max
					     : 16 * (__u64)services;
	__u32 slots = options->slots_max ? options->slots_max : OXP_SLOTS_LIMIT;
	__u32 flows = options->flows_max ? options->flows_max : FLOWS_DEFAULT;

	if (services > SERVICES_LIMIT || members > MEMBERS_LIMIT)
		return failure(error, -EINVAL,
			       "%u services, %llu members: the limits are %u "
			       "and %u",
			       services, members, SERVICES_LIMIT,
			       MEMBERS_LIMIT);
	if (slots < 2 || slots > OXP_SLOTS_LIMIT)
		return failure(error, -EINVAL,
			       "tables of %u slots, the limit is %u", slots,
			       OXP_SLOTS_LIMIT);
	if (flows & (flows - 1) || flows < FLOW_SET_WAYS || flows > FLOWS_LIMIT)
		return failure(error, -EINVAL,
			       "%u flows: wanted is a power of two from %u to "
			       "%u",
			       flows, FLOW_SET_WAYS, FLOWS_LIMIT);
	*config = (struct node_config){
		.layout = OXP_LAYOUT,
		.services_max = services,
		.members_max = members,
		.slots_max = slots,
		.flows_max = flows,
		.lookup_mask = buckets(services) - 1,
		.epoch = 1,
		.changes = 1,
		.last_asked = coarse_time() >> 30,
	};
	return size_counters(config, error);
}

static int pin_maps(const struct oxp_node *node, struct forward *object)
{
	int status = 0;

	for (int i = 0; i < MAPS && !status; i++) {
		char *path = pin_path(node, "maps-new", map_names[i]);
		struct bpf_map *map = find_map(object->obj, map_names[i]);

		status = path ? bpf_obj_pin(bpf_map__fd(map), path) : -ENOMEM;
		free(path);
	}
	return status;
}

void size_maps(struct forward *object, const struct node_config *config)
{
	uint32_t services = config->services_max;

	bpf_map__set_max_entries(object->maps.lookup_v4,
				 config->lookup_mask + 1);
	bpf_map__set_max_entries(object->maps.lookup_v6,
				 config->lookup_mask + 1);
	bpf_map__set_max_entries(object->maps.vips, services);
	bpf_map__set_max_entries(object->maps.services, services);
	bpf_map__set_max_entries(object->maps.flows,
				 config->flows_max / FLOW_SET_WAYS);
	bpf_map__set_max_entries(object->maps.quic_servers,
				 config->members_max);
	bpf_map__set_max_entries(object->maps.service_counters, config->cpus);
	bpf_map__set_value_size(object->maps.service_counters,
				slice_size(services, SERVICE_PARTS));
	bpf_map__set_max_entries(object->maps.nat_services, services);
	bpf_map__set_max_entries(object->maps.reply_counters, services);
	bpf_map__set_max_entries(object->maps.member_counters, config->cpus);
	bpf_map__set_value_size(object->maps.member_counters,
				slice_size(config->members_max, MEMBER_PARTS));
	bpf_map__set_max_entries(object->maps.pending_counts, config->cpus);
}

static const struct load load = {.what = "the datapath"};

static int write_first(struct forward *object, const struct node_config *config)
{
	struct uplink_set none = {};
	__u32 key = 0;

	memset(none.choice, OXP_NO_UPLINK, sizeof(none.choice));
	if (bpf_map_update_elem(
		    bpf_map__fd(find_map(object->obj, map_names[MAP_CONFIG])),
		    &key, config, BPF_ANY))
		return -errno;
	for (key = 0; key < 2; key++)
		if (bpf_map_update_elem(bpf_map__fd(object->maps.uplinks), &key,
					&none, BPF_ANY))
			return -errno;
	return 0;
}

static int adopt_maps(struct forward *object, const int adopted[MAPS])
{
	int status = 0;

	for (int i = 0; i < MAPS && !status; i++)
		if (adopted[i] >= 0)
			status = bpf_map__reuse_fd(
				find_map(object->obj, map_names[i]),
				adopted[i]);
	return status;
}

static int fill_new(const struct oxp_node *node, struct forward *object,
		    const struct node_config *config, const int adopted[MAPS],
		    char *error)
{
	int status;
	char *path;

	size_maps(object, config);
	configure_program(object, config, config->flags);
	status = adopt_maps(object, adopted);
	status = load_skeleton(&load, object->skeleton, status, error,
			       OXP_ERROR_LENGTH);
	if (status)
		return status;
	status = write_first(object, config);
	if (status)
		return failure(error, status, "cannot write the first state");

	remove_folder(node, "maps-new"); /* left by a process that died here */
	path = pin_path(node, "maps-new", NULL);
	status = path && mkdir(path, 0700) ? -errno : 0;
	free(path);
	if (!status)
		status = pin_maps(node, object);
	if (status) {
		remove_folder(node, "maps-new");
		return failure(error, status, "cannot pin maps in %s",
			       node->pin_directory);
	}
	return 0;
}

int make_maps(const struct oxp_node *node, const struct node_config *config,
	      const int adopted[MAPS], struct forward **out, char *error)
{
	struct forward *object;
	int status;

	forget_libbpf_messages();
	object = forward__open();
	if (!object)
		return load_skeleton(&load, NULL, 0, error, OXP_ERROR_LENGTH);
	status = fill_new(node, object, config, adopted, error);
	if (status)
		forward__destroy(object);
	else
		*out = object;
	return status;
}

int create_pins(struct oxp_node *node, const struct oxp_options *options,
		char *error)
{
	struct node_config config;
	struct forward *object;
	uint64_t seed = 0;
	int status, adopted[MAPS];

	memset(adopted, -1, sizeof(adopted));
	status = size_state(options, &config, error);
	if (!status)
		status = make_pin_directory(node, error);
	if (status)
		return status;
	status = draw_seed(&seed);
	if (status)
		return failure(error, status, "cannot draw a seed");
	config.seed = seed;
	status = make_maps(node, &config, adopted, &object, error);
	if (status)
		return status;
	forward__destroy(object);
	status = rename_folder(node, "maps-new", "maps");
	if (status) {
		remove_folder(node, "maps-new");
		return failure(error, status, "cannot pin maps in %s",
			       node->pin_directory);
	}
	return 0;
}
