// SPDX-License-Identifier: Apache-2.0
/*
 * Taking over from another library while packets flow:
 *
 * 1. The old library locks the node and marks it dirty: from here on whoever
 *    comes after a death finds it so, and its library mends it (mend.c).
 * 2. Its state comes as a stream. Maps for it are made beside the old ones,
 *    pinned in maps-new; maps that packets write are handed over as they are
 *    if their formats are the same. The program is loaded, the maps filled.
 * 3. Each interface changes to the new program, and packets of the old one
 *    are waited for. What these changed in maps that were not handed over is
 *    copied again.
 * 4. maps-new and maps change places: the one moment from which on the new
 *    state is in force. The old one is marked stale, its pins are removed.
 *
 * A failure or a death before 4 leaves the old state in force. Then what
 * packets have changed meanwhile in maps that were not handed over is lost:
 * counts and remembered flows of these milliseconds.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "forward.skel.h"
#include "internal.h"

/* The library that has the node until now. */
struct source {
	void *library;
	struct oxp_node *node;
	int (*open)(const struct oxp_options *, struct oxp_node **, char *);
	void (*close)(struct oxp_node *);
	int (*begin)(struct oxp_node *, int *, char *);
	int (*export)(struct oxp_node *, int, char *);
	int (*end)(struct oxp_node *, uint8_t, char *);
};

/* The state under construction. */
struct successor {
	struct oxp_node *node;
	struct forward *object;
	int adopted[MAPS];
};

static int find_symbols(struct source *source, const char *path, char *error)
{
	const struct {
		const char *name;
		void *pointer;
	} wanted[] = {
		{"oxp_open", &source->open},
		{"oxp_close", &source->close},
		{"oxp_handover_begin", &source->begin},
		{"oxp_export", &source->export},
		{"oxp_handover_end", &source->end},
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		void *symbol = dlsym(source->library, wanted[i].name);

		if (!symbol)
			return failure(error, -ENOSYS, "%s has no %s()", path,
				       wanted[i].name);
		memcpy(wanted[i].pointer, &symbol, sizeof(symbol));
	}
	return 0;
}

/* liboctavia_xdp.so.<layout> beside this library, or the loader's. */
static void *load_layout(int layout)
{
	char name[64], path[4096];
	void *library = NULL;
	Dl_info own;

	snprintf(name, sizeof(name), "liboctavia_xdp.so.%d", layout);
	if (dladdr((void *)(uintptr_t)oxp_upgrade, &own)) {
		char *folder = strdup(own.dli_fname);

		if (folder &&
		    snprintf(path, sizeof(path), "%s/%s", dirname(folder),
			     name) < (int)sizeof(path))
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		free(folder);
	}
	return library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* It is never unloaded: libbpf keeps a pointer to its function for messages
 * until ours is set again, and threads may still hold its buffers. */
static int load_source(struct source *source, const char *from, int layout,
		       char *error)
{
	char name[64];

	snprintf(name, sizeof(name), "liboctavia_xdp.so.%d", layout);
	source->library = from ? dlopen(from, RTLD_NOW | RTLD_LOCAL)
			       : load_layout(layout);
	if (!source->library)
		return failure(error, -ELIBACC,
			       "the pinned state has layout %d, and its "
			       "library has to hand it over: %s",
			       layout, dlerror());
	return find_symbols(source, from ? from : name, error);
}

static void report_interface(struct oxp_upgrade *out, uint32_t ifindex,
			     int link)
{
	struct bpf_link_info attached = {};
	struct bpf_prog_info info = {};
	__u32 length = sizeof(attached);
	int program;

	if (out->interfaces < OXP_UPGRADE_INTERFACES)
		out->interface[out->interfaces] = ifindex;
	if (out->interfaces++ ||
	    bpf_obj_get_info_by_fd(link, &attached, &length))
		return;
	program = bpf_prog_get_fd_by_id(attached.prog_id);
	length = sizeof(info);
	if (program >= 0 && !bpf_obj_get_info_by_fd(program, &info, &length))
		memcpy(out->tag_before, info.tag, sizeof(info.tag));
	if (program >= 0)
		close(program);
}

struct look {
	struct oxp_upgrade *out;
	struct forward *object; /* ours */
	bool same;              /* on all interfaces */
};

static int look_at_link(struct oxp_node *node, int link, uint32_t ifindex,
			void *argument)
{
	struct look *look = argument;

	report_interface(look->out, ifindex, link);
	look->same = look->same && is_same_program(node, link, look->object);
	return 0;
}

static bool report_programs(struct oxp_node *node, struct forward *object,
			    struct oxp_upgrade *out)
{
	struct look look = {out, object, true};
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);

	if (!bpf_obj_get_info_by_fd(bpf_program__fd(object->progs.oxp_forward),
				    &info, &length))
		memcpy(out->tag_after, info.tag, sizeof(info.tag));
	for_each_link(node, look_at_link, &look);
	return look.same;
}

static void report_services(struct oxp_node *node, struct oxp_upgrade *out)
{
	for (uint32_t i = 0; i < node->config->services_max; i++) {
		const struct service_block *block;

		if (entry_of(node, i)->state != ENTRY_USED)
			continue;
		out->services++;
		block = live_block(node, i);
		for (uint32_t j = 0; j < block->members; j++)
			out->members +=
				!!(block->member[j].flags & MEMBER_PRESENT);
	}
}

/* The pinned layout is ours: at most the program changes. */
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
		if (!status) {
			out->changes = !report_programs(node, object, out);
			report_services(node, out);
		}
		if (!status && out->changes && !dry_run)
			status = replace_programs(
				node,
				bpf_program__fd(object->progs.oxp_forward),
				error);
		forward__destroy(object);
		unlock_node(node);
	}
	oxp_close(node);
	return status;
}

static int export_to_memory(struct source *source, struct import **out,
			    char *error)
{
	int fd = memfd_create("oxp-state", MFD_CLOEXEC), status;

	if (fd < 0)
		return failure(error, -errno, "cannot keep the state");
	status = source->export(source->node, fd, error);
	if (!status && lseek(fd, 0, SEEK_SET))
		status = failure(error, -errno, "cannot read the state");
	if (!status)
		status = read_stream(fd, out, error);
	close(fd);
	return status;
}

/* What make_maps() would make. */
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
	struct forward *object = forward__open();

	if (!object)
		return failure(error, -errno, "cannot open the BPF object (%s)",
			       last_libbpf_message());
	size_maps(object, config);
	for (int i = 0; i < PACKET_MAPS; i++) {
		const struct packet_map *one = &packet_maps[i];
		char *path;
		int map;

		/* their keys are made of these names */
		if (one->map == MAP_FLOWS &&
		    imported_format(import, "flow names") != FORMAT_FLOW_NAMES)
			continue;
		if (imported_format(import, one->name) != one->format)
			continue;
		path = pin_path(successor->node, "maps", map_names[one->map]);
		map = path ? bpf_obj_get(path) : -ENOMEM;
		free(path);
		if (map < 0)
			continue;
		if (fits(map, bpf_object__find_map_by_name(
				      object->obj, map_names[one->map])))
			successor->adopted[one->map] = map;
		else
			close(map);
	}
	forward__destroy(object);
	return 0;
}

static int construct(struct successor *successor, struct source *source,
		     char *error)
{
	struct node_config config;
	struct import *import = NULL;
	int status = export_to_memory(source, &import, error);

	if (!status)
		status = imported_sizes(import, &config, error);
	if (!status)
		status = adopt(successor, import, &config, error);
	if (!status)
		status = make_maps(successor->node, &config, successor->adopted,
				   &successor->object, error);
	if (!status)
		status = open_pins(successor->node, "maps-new", error);
	if (!status)
		status = prepare_node(successor->node, error);
	if (!status)
		status = fill_node(successor->node, import, successor->adopted,
				   error);
	free_import(import);
	return status;
}

static bool is_all_handed(const struct successor *successor)
{
	for (int i = 0; i < PACKET_MAPS; i++)
		if (successor->adopted[packet_maps[i].map] < 0)
			return false;
	return true;
}

static int switch_over(struct successor *successor, struct source *source,
		       char *error)
{
	struct oxp_node *node = successor->node;
	struct import *import = NULL;
	int status;

	status = replace_programs(
		node, bpf_program__fd(successor->object->progs.oxp_forward),
		error);
	if (!status)
		status = synchronize(error);
	if (!status && !is_all_handed(successor)) {
		status = export_to_memory(source, &import, error);
		if (!status)
			status = fill_rest(node, import, successor->adopted,
					   error);
		free_import(import);
	}
	if (status)
		return status;
	status = exchange_folder(node, "maps-new");
	return status ? failure(error, status,
				"cannot put the new maps in their place")
		      : 0;
}

static void report(const struct successor *successor, struct oxp_upgrade *out)
{
	report_programs(successor->node, successor->object, out);
	report_services(successor->node, out);
	out->changes = 1;
	for (int i = 0; i < MAPS; i++) {
		if (successor->adopted[i] >= 0) {
			out->maps_handed++;
			continue;
		}
		out->maps_new++;
		out->map_bytes += bytes_of_map(successor->node->map[i]);
	}
}

/* *taken: the new state is in force, whatever happens then. */
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
	/* a copy of a descriptor shares the lock that it holds */
	successor.node->lock_fd = fcntl(lock_file, F_DUPFD_CLOEXEC, 0);
	if (successor.node->lock_fd < 0)
		status = failure(error, -errno, "cannot share the lock");
	if (!status)
		status = construct(&successor, source, error);
	if (!status)
		report(&successor, out);
	if (!status && !dry_run) {
		status = switch_over(&successor, source, error);
		*taken = !status;
	}
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
		/* what went wrong first says more */
		if (ended && !status)
			status = failure(error, ended, "taking back: %s", text);
	}
	source->close(source->node);
	catch_libbpf_messages();
	return status;
}

/* The old maps' pins, once nobody goes back to them. */
static int remove_old(const struct oxp_options *options, char *error)
{
	struct oxp_options existing = *options;
	struct oxp_node *node;
	int status;

	existing.create = 0;
	status = oxp_open(&existing, &node, error);
	if (!status)
		oxp_close(node);
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
	if (!status)
		status = change_layout(options, &source, dry_run, out, error);
	if (!status && !dry_run)
		status = remove_old(options, error);
	return status;
}
