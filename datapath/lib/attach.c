// SPDX-License-Identifier: Apache-2.0
/* Attaching the program to interfaces. */
#include <dirent.h>
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
	object->rodata->flow_sets_mask = config->flows_max / OXP_FLOW_WAYS - 1;
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
		return failure(error, status, "cannot load the program (%s)",
			       last_libbpf_message());
	}
	*out = object;
	return 0;
}

static char *link_path(const struct oxp_node *node, uint32_t ifindex)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", ifindex);
	return pin_path(node, "links", name);
}

/* The pinned link, or -ENOENT. A pin that outlived its interface is removed:
 * the number may belong to another one by now. */
static int open_link(const char *path, uint32_t ifindex)
{
	struct bpf_link_info info = {};
	__u32 length = sizeof(info);
	int link, status;

	link = bpf_obj_get(path);
	if (link < 0)
		return -errno;
	status = bpf_obj_get_info_by_fd(link, &info, &length);
	if (!status && info.type == BPF_LINK_TYPE_XDP &&
	    info.xdp.ifindex == ifindex)
		return link;
	close(link);
	if (status)
		return status;
	return unlink(path) ? -errno : -ENOENT;
}

int for_each_link(struct oxp_node *node,
		  int (*one)(struct oxp_node *node, int link, uint32_t ifindex,
			     void *argument),
		  void *argument)
{
	char *folder = pin_path(node, "links", NULL);
	DIR *directory = folder ? opendir(folder) : NULL;
	struct dirent *entry;
	int status = 0;

	free(folder);
	while (directory && !status && (entry = readdir(directory))) {
		uint32_t ifindex = strtoul(entry->d_name, NULL, 10);
		char *path = ifindex ? link_path(node, ifindex) : NULL;
		int link = path ? open_link(path, ifindex) : -ENOENT;

		free(path);
		if (link < 0)
			continue;
		status = one(node, link, ifindex, argument);
		close(link);
	}
	if (directory)
		closedir(directory);
	return status;
}

static int id_of_link(int link, uint32_t *id)
{
	struct bpf_link_info info = {};
	__u32 length = sizeof(info);
	int status = bpf_obj_get_info_by_fd(link, &info, &length);

	*id = info.prog_id;
	return status;
}

/* 1 ends the walk */
static int take_id(struct oxp_node *node, int link, uint32_t ifindex, void *id)
{
	(void)node;
	(void)ifindex;
	return id_of_link(link, id) ? 0 : 1;
}

int attached_program(struct oxp_node *node, uint32_t *id)
{
	int program;

	if (for_each_link(node, take_id, id) != 1)
		return -ENOENT;
	program = bpf_prog_get_fd_by_id(*id);
	return program < 0 ? -errno : program;
}

struct replacement {
	int program;
	uint32_t before; /* id of the program that the first link had */
	char *error;
};

static int replace_one(struct oxp_node *node, int link, uint32_t ifindex,
		       void *argument)
{
	struct replacement *replacement = argument;
	int status;

	(void)node;
	if (!replacement->before)
		id_of_link(link, &replacement->before);
	status = bpf_link_update(link, replacement->program, NULL);
	return status ? failure(replacement->error, status,
				"cannot replace the program of interface %u",
				ifindex)
		      : 0;
}

int replace_programs(struct oxp_node *node, int program, char *error)
{
	struct replacement replacement = {program, 0, error};
	int status = for_each_link(node, replace_one, &replacement);
	int before;

	if (!status || !replacement.before)
		return status;
	before = bpf_prog_get_fd_by_id(replacement.before);
	if (before >= 0) {
		struct replacement back = {before, 0, NULL};

		for_each_link(node, replace_one, &back);
		close(before);
	}
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

int oxp_attach(struct oxp_node *node, uint32_t ifindex, char *error)
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
			status = bpf_link_update(link, program, NULL);
			close(link);
			if (status)
				failure(error, status,
					"cannot replace the program of "
					"interface %u",
					ifindex);
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

int oxp_detach(struct oxp_node *node, uint32_t ifindex, char *error)
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
