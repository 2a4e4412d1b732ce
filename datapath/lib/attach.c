// SPDX-License-Identifier: Apache-2.0
/* Attaching the program to interfaces. */
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "forward.skel.h"
#include "internal.h"

void configure_program(struct forward *object, const struct node_config *config,
		       uint32_t flags)
{
	object->rodata->slots_max = config->slots_max;
	object->rodata->lookup_mask = config->lookup_mask;
	object->rodata->flow_sets_mask = config->flows_max / FLOW_SET_WAYS - 1;
	object->rodata->node_seed = config->seed;
	object->rodata->feature_fib = !!(flags & OXP_NODE_FIB);
}

int load_program(struct oxp_node *node, uint32_t flags, struct forward **out,
		 char *error)
{
	struct forward *object;
	int status = 0;

	forget_libbpf_messages();
	object = forward__open();
	if (!object)
		return failure(error, -errno, "cannot open the BPF object (%s)",
			       last_libbpf_message());
	for (int i = 0; i < MAPS && !status; i++)
		status = bpf_map__reuse_fd(
			bpf_object__find_map_by_name(object->obj, map_names[i]),
			node->map[i]);
	configure_program(object, node->config, flags);
	if (!status)
		status = forward__load(object);
	if (status) {
		forward__destroy(object);
		return load_failure(error, status, "the program");
	}
	*out = object;
	return 0;
}

/* Whether the program uses the map; its constants in *rodata, if wanted. */
static int look_at_maps(int program, int map, int *rodata)
{
	struct bpf_prog_info info = {};
	struct bpf_map_info wanted = {}, one = {};
	__u32 ids[MAPS + 16], length = sizeof(wanted);
	bool used = false;
	int status;

	status = bpf_obj_get_info_by_fd(map, &wanted, &length);
	info.nr_map_ids = sizeof(ids) / sizeof(ids[0]);
	info.map_ids = (uintptr_t)ids;
	length = sizeof(info);
	if (!status)
		status = bpf_obj_get_info_by_fd(program, &info, &length);
	if (status)
		return status;
	for (__u32 i = 0;
	     i < info.nr_map_ids && i < sizeof(ids) / sizeof(ids[0]); i++) {
		int other;

		used |= ids[i] == wanted.id;
		if (!rodata || ids[i] == wanted.id)
			continue;
		other = bpf_map_get_fd_by_id(ids[i]);
		length = sizeof(one);
		if (other >= 0 &&
		    !bpf_obj_get_info_by_fd(other, &one, &length) &&
		    strstr(one.name, ".rodata") && *rodata < 0)
			*rodata = other;
		else if (other >= 0)
			close(other);
	}
	return used;
}

static bool has_constants(int map, struct forward *object)
{
	size_t size;
	const void *own = bpf_map__initial_value(object->maps.rodata, &size);
	struct bpf_map_info info = {};
	__u32 length = sizeof(info), zero = 0;
	bool same = false;
	void *value;

	if (map < 0 || bpf_obj_get_info_by_fd(map, &info, &length) ||
	    info.value_size != size || !(value = malloc(size + 8)))
		return false;
	if (!bpf_map_lookup_elem(map, &zero, value))
		same = !memcmp(value, own, size);
	free(value);
	return same;
}

bool is_same_program(struct oxp_node *node, int link, struct forward *object)
{
	struct bpf_prog_info there = {}, own = {};
	int program = program_of_link(link), rodata = -1;
	__u32 length = sizeof(there);
	bool same = false;

	if (program < 0)
		return false;
	if (!bpf_obj_get_info_by_fd(program, &there, &length)) {
		length = sizeof(own);
		same = !bpf_obj_get_info_by_fd(
			       bpf_program__fd(object->progs.oxp_forward), &own,
			       &length) &&
		       !memcmp(there.tag, own.tag, sizeof(own.tag)) &&
		       look_at_maps(program, node->map[MAP_TABLES], &rodata) ==
			       1 &&
		       has_constants(rodata, object);
	}
	if (rodata >= 0)
		close(rodata);
	close(program);
	return same;
}

struct mending {
	struct forward *object;
	char *error;
};

static int mend_link(struct oxp_node *node, int link, uint32_t ifindex,
		     void *argument)
{
	struct mending *mending = argument;
	int program, status;
	uint32_t id;

	status = id_of_link(link, &id);
	if (status)
		return failure(mending->error, status,
			       "cannot look at interface %u", ifindex);
	program = bpf_prog_get_fd_by_id(id);
	if (program >= 0) {
		status = look_at_maps(program, node->map[MAP_TABLES], NULL);
		close(program);
		if (status == 1)
			return 0;
	}
	if (!mending->object) {
		status = load_program(node, node->config->flags,
				      &mending->object, mending->error);
		if (status)
			return status;
	}
	return replace_program(
		link, bpf_program__fd(mending->object->progs.oxp_forward),
		ifindex, mending->error);
}

int mend_programs(struct oxp_node *node, char *error)
{
	struct mending mending = {NULL, error};
	int status = for_each_link(node, mend_link, &mending, error);

	forward__destroy(mending.object);
	return status;
}

static int create_link(const struct oxp_node *node, const char *path,
		       int program, uint32_t ifindex, char *error)
{
	DECLARE_LIBBPF_OPTS(bpf_link_create_opts, options,
			    .flags = XDP_FLAGS_DRV_MODE);
	char *folder = pin_path(node, "links", NULL);
	int link, status = 0;

	if (!folder || (mkdir(folder, 0700) && errno != EEXIST))
		status = folder ? -errno : -ENOMEM;
	free(folder);
	if (status)
		return failure(error, status,
			       "cannot create the folder of links");

	link = bpf_link_create(program, ifindex, BPF_XDP, &options);
	if (link == -EBUSY)
		return failure(error, link,
			       "interface %u has another XDP program", ifindex);
	if (link < 0)
		return failure(error, link,
			       "cannot attach to interface %u in native mode",
			       ifindex);
	/* until it is pinned, the link dies with us */
	status = bpf_obj_pin(link, path);
	close(link);
	return status ? failure(error, status, "cannot pin %s", path) : 0;
}

int oxp_interface_attach(struct oxp_node *node, uint32_t ifindex, char *error)
{
	struct forward *object = NULL;
	int link, program, status;
	char name[IF_NAMESIZE];
	char *path;

	if (!if_indextoname(ifindex, name))
		return failure(error, -ENODEV, "interface %u", ifindex);
	status = lock_node(node, error);
	if (status)
		return status;
	path = link_path(node, ifindex);
	status = path ? load_program(node, node->config->flags, &object, error)
		      : failure(error, -ENOMEM, "cannot attach");
	if (!status) {
		program = bpf_program__fd(object->progs.oxp_forward);
		link = open_link(path, ifindex);
		if (link >= 0) {
			/* a user that comes again changes nothing */
			if (!is_same_program(node, link, object))
				status = replace_program(link, program, ifindex,
							 error);
			close(link);
		} else if (link == -ENOENT) {
			status = create_link(node, path, program, ifindex,
					     error);
		} else {
			status = failure(error, link, "cannot open %s", path);
		}
	}
	forward__destroy(object);
	free(path);
	unlock_node(node);
	return status;
}

int oxp_interface_detach(struct oxp_node *node, uint32_t ifindex, char *error)
{
	int link, status;
	char *path;

	status = lock_node(node, error);
	if (status)
		return status;
	path = link_path(node, ifindex);
	link = path ? open_link(path, ifindex) : -ENOMEM;
	if (link >= 0) {
		/* whoever else has it open cannot keep it alive */
		status = bpf_link_detach(link);
		if (unlink(path) && !status)
			status = -errno;
		close(link);
	} else {
		status = link;
	}
	free(path);
	unlock_node(node);
	return status ? failure(error, status,
				"cannot detach from interface %u", ifindex)
		      : 0;
}
