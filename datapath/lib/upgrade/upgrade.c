// SPDX-License-Identifier: Apache-2.0
/*
 * Taking over from another library while packets flow:
 *
 *  1. The old library locks the node and marks it dirty: after a death from now
 *     on, the next user repairs the state with that library (node/repair.c).
 *  2. Its state arrives as a stream. New maps are created beside the old ones
 *     and pinned in maps-new; maps that packets write are handed over as they
 *     are if their formats are equal. The program is loaded, the maps filled.
 *  3. Each interface switches to the new program, followed by a wait for
 *     packets in the old one. Flows in maps that were not handed over are
 *     copied just before and after this, counters after it.
 *  4. maps-new and maps are exchanged: now the new state is effective. The old
 *     one's pins are removed, and it is marked stale.
 *
 * A failure or death before 4 leaves the old state effective, without what
 * packets changed meanwhile in maps that were not handed over: some ms of
 * counts and flows.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "forward.skel.h"
#include "load/load.h"
#include "nat_table/pools.h"
#include "node/create.h"
#include "node/info.h"
#include "node/lock.h"
#include "node/maps.h"
#include "node/open.h"
#include "pins.h"
#include "program/load.h"
#include "program/replace.h"
#include "state.h"
#include "synchronize.h"
#include "upgrade/import.h"
#include "upgrade/import_packets.h"
#include "upgrade/reader.h"
#include "upgrade/report.h"
#include "upgrade/source.h"

/* The new state, while it is built. */
struct successor {
	struct oxp_node *node;
	struct forward *object;
	int adopted[MAPS];
};

/* The pinned layout is ours: only the program may change. */
static int replace_own(const struct oxp_options *options, bool dry_run,
		       struct oxp_upgrade *out, char *error)
{
	struct forward *object = NULL;
	struct oxp_node *node;
	int status = oxp_open(options, &node, error);

	if (status)
		return status;
	status = lock_node(node, error);
	if (!status) {
		status =
			load_program(node, node->config->flags, &object, error);
		if (!status)
			status = report_interfaces(node, object, out, error);
		if (!status)
			report_services(node, out);
		if (!status && out->changes && !dry_run)
			status = replace_programs(node, object, error);
		forward__destroy(object);
		unlock_node(node);
	}
	oxp_close(node);
	return status;
}

/* Whether make_maps() would create the same kind of map. */
static bool fits(int map, struct bpf_map *ours)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);

	return !bpf_obj_get_info_by_fd(map, &info, &length) &&
	       info.type == bpf_map__type(ours) &&
	       info.key_size == bpf_map__key_size(ours) &&
	       info.value_size == bpf_map__value_size(ours) &&
	       info.max_entries == bpf_map__max_entries(ours) &&
	       info.map_flags == bpf_map__map_flags(ours);
}

static int adopt(struct successor *successor, const struct import *import,
		 const struct node_config *config, char *error)
{
	static const struct load load = {.what = "the datapath"};
	struct forward *object = forward__open();

	if (!object)
		return load_skeleton(&load, NULL, 0, error, OXP_ERROR_LENGTH);
	size_maps(object, config);
	for (int i = 0; i < MAPS; i++) {
		char *path;
		int map;

		/* the keys of this map are flow names */
		if (i == MAP_FLOWS &&
		    imported_format(import, "flow names") != FORMAT_FLOW_NAMES)
			continue;
		if (!map_formats[i] ||
		    imported_format(import, map_names[i]) != map_formats[i])
			continue;
		path = pin_path(successor->node, "maps", map_names[i]);
		map = path ? bpf_obj_get(path) : -ENOMEM;
		free(path);
		if (map < 0)
			continue;
		if (fits(map, find_map(object->obj, map_names[i])))
			successor->adopted[i] = map;
		else
			close(map);
	}
	forward__destroy(object);
	return 0;
}

/* NAT maps can be used only together. */
static bool has_nat_maps(const struct successor *successor)
{
	static const enum map maps[] = {MAP_NAT, MAP_NAT_TABLES, MAP_NAT_INDEX,
					MAP_NAT_SERVICES};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		if (successor->adopted[maps[i]] < 0)
			return false;
	return true;
}

static int construct(struct successor *successor, struct source *source,
		     char *error)
{
	struct node_config config;
	struct import *import = NULL;
	int status = read_source(source, OXP_PART_ALL, &import, error);

	if (!status)
		status = imported_sizes(import, &config, error);
	if (!status)
		status = adopt(successor, import, &config, error);
	/* the agent sets the pools again; their flows are lost */
	if (!status && !has_nat_maps(successor))
		config.nat_addresses = 0;
	if (!status)
		status = make_maps(successor->node, &config, successor->adopted,
				   &successor->object, error);
	if (!status)
		status = open_pins(successor->node, "maps-new", error);
	if (!status)
		status = prepare_node(successor->node, error);
	if (!status)
		status = fill_node(successor->node, import, error);
	if (!status && config.nat_addresses)
		status = adopt_pools(successor->node, "maps", error);
	free_import(import);
	return status;
}

/* Copy flows if their map was not handed over. */
static int copy_flows(struct successor *successor, struct source *source,
		      char *error)
{
	struct import *import = NULL;
	int status;

	if (successor->adopted[MAP_FLOWS] >= 0)
		return 0;
	status = read_source(source, OXP_PART_FLOWS, &import, error);
	if (!status)
		status = fill_flows(successor->node, import, error);
	free_import(import);
	return status;
}

static int copy_counters(struct successor *successor, struct source *source,
			 char *error)
{
	const int *adopted = successor->adopted;
	struct import *import = NULL;
	int status;

	status = read_source(source, OXP_PART_COUNTERS, &import, error);
	if (!status)
		status = fill_counters(successor->node, import, adopted, error);
	free_import(import);
	return status;
}

/* Copy flows just before and just after the switch: until then the new program
 * does not know what packets remember in between. Counters can wait. */
static int switch_over(struct successor *successor, struct source *source,
		       char *error)
{
	struct oxp_node *node = successor->node;
	int status = copy_flows(successor, source, error);

	if (!status)
		status = replace_programs(node, successor->object, error);
	if (!status)
		status = synchronize(error);
	if (!status)
		status = copy_flows(successor, source, error);
	if (!status)
		status = copy_counters(successor, source, error);
	if (status)
		return status;
	status = exchange_folder(node, "maps-new");
	return status ? failure(error, status,
				"cannot put the new maps in their place")
		      : 0;
}

static int report(const struct successor *successor, struct oxp_upgrade *out,
		  char *error)
{
	out->changes = 1;
	report_services(successor->node, out);
	for (int i = 0; i < MAPS; i++) {
		if (successor->adopted[i] >= 0) {
			out->maps_handed++;
			continue;
		}
		out->maps_new++;
		out->map_bytes += bytes_of_map(successor->node->map[i]);
	}
	out->map_bytes += (uint64_t)successor->node->segments * SEGMENT_SIZE;
	return report_interfaces(successor->node, successor->object, out,
				 error);
}

/* *taken: the new state is effective, whatever happens afterwards. */
static int take_over(const struct oxp_options *options, struct source *source,
		     int lock_file, bool dry_run, struct oxp_upgrade *out,
		     bool *taken, char *error)
{
	struct successor successor = {};
	int status = 0;

	memset(successor.adopted, -1, sizeof(successor.adopted));
	successor.node = new_node(options, error);
	if (!successor.node)
		return -ENOMEM;
	/* a copy of the descriptor shares its lock */
	successor.node->lock_fd = fcntl(lock_file, F_DUPFD_CLOEXEC, 0);
	if (successor.node->lock_fd < 0)
		status = failure(error, -errno, "cannot share the lock");
	if (!status)
		status = construct(&successor, source, error);
	if (!status)
		status = report(&successor, out, error);
	if (!status && !dry_run) {
		status = switch_over(&successor, source, error);
		*taken = !status;
	}
	/* now the old maps, which nobody returns to */
	if (*taken)
		remove_folder(successor.node, "maps-new");
	forward__destroy(successor.object);
	for (int i = 0; i < MAPS; i++)
		if (successor.adopted[i] >= 0)
			close(successor.adopted[i]);
	oxp_close(successor.node);
	return status;
}

static int change_layout(const struct oxp_options *options,
			 struct source *source, bool dry_run,
			 struct oxp_upgrade *out, char *error)
{
	struct oxp_options existing = *options;
	char text[OXP_ERROR_LENGTH];
	bool taken = false;
	int lock_file, status, ended;

	existing.create = 0;
	status = source->open(&existing, &source->node, error);
	if (status)
		return status;
	status = source->begin(source->node, &lock_file, error);
	if (!status) {
		status = take_over(options, source, lock_file, dry_run, out,
				   &taken, error);
		ended = source->end(source->node, taken, text);
		if (ended && !status)
			failure(error, ended, "cannot end");
		if (ended)
			add_failure(error,
				    "whoever opens the node next has to take "
				    "back the rest: %s",
				    text);
		if (!status)
			status = ended;
	}
	source->close(source->node);
	catch_libbpf_messages();
	return status;
}

int oxp_upgrade(const struct oxp_options *options, const char *from,
		uint8_t dry_run, struct oxp_upgrade *out, char *error)
{
	struct source source = {};
	int layout, status;

	*out = (struct oxp_upgrade){.layout_after = OXP_LAYOUT};
	if (!options->pin_directory || !options->lock_file)
		return failure(error, -EINVAL,
			       "a pin directory and a lock file are needed");
	catch_libbpf_messages();
	layout = pinned_layout(options->pin_directory);
	if (layout < 0)
		return failure(error, layout, "no datapath is pinned in %s",
			       options->pin_directory);
	out->layout_before = layout;
	if (layout == OXP_LAYOUT) {
		struct oxp_options existing = *options;

		existing.create = 0;
		return replace_own(&existing, dry_run, out, error);
	}
	status = load_source(&source, from, layout, error);
	return status ? status
		      : change_layout(options, &source, dry_run, out, error);
}
