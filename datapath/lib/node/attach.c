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

#include "error.h"
#include "forward.skel.h"
#include "node/lock.h"
#include "pins.h"
#include "program/compare.h"
#include "program/links.h"
#include "program/load.h"
#include "state.h"

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
	/* an unpinned link would end with this process */
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
			/* attaching again changes nothing */
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
		/* detach even if another process holds the link open */
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
