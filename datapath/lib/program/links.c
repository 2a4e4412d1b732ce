// SPDX-License-Identifier: Apache-2.0
/*
 * The links that attach programs to interfaces. A link outlives its interface
 * and then reports that it has none; such links are ignored.
 */
#include "program/links.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "pins.h"
#include "state.h"

char *link_path(const struct oxp_node *node, uint32_t ifindex)
{
	return numbered_pin_path(node, "links", "", ifindex);
}

/* Remove a pin that outlived its interface: the number may have been reused. */
int open_link(const char *path, uint32_t ifindex)
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

/* Fail if a link cannot be opened: the interface would keep what the others no
 * longer have. */
static int visit(struct oxp_node *node, uint32_t ifindex,
		 int (*one)(struct oxp_node *node, int link, uint32_t ifindex,
			    void *argument),
		 void *argument, char *error)
{
	char *path = link_path(node, ifindex);
	int link = path ? open_link(path, ifindex) : -ENOMEM, status;

	free(path);
	if (link == -ENOENT)
		return 0;
	if (link < 0)
		return failure(error, link,
			       "cannot open the link of interface "
			       "%u",
			       ifindex);
	status = one(node, link, ifindex, argument);
	close(link);
	return status;
}

int for_each_link(struct oxp_node *node,
		  int (*one)(struct oxp_node *node, int link, uint32_t ifindex,
			     void *argument),
		  void *argument, char *error)
{
	char *folder = pin_path(node, "links", NULL);
	DIR *directory = folder ? opendir(folder) : NULL;
	struct dirent *entry;
	int status = 0;

	if (!directory)
		status = folder ? -errno : -ENOMEM;
	free(folder);
	if (status == -ENOENT)
		return 0;
	if (status)
		return failure(error, status, "cannot list the links");
	while (!status && (entry = readdir(directory))) {
		uint32_t ifindex = strtoul(entry->d_name, NULL, 10);

		if (ifindex)
			status = visit(node, ifindex, one, argument, error);
	}
	closedir(directory);
	return status;
}

int id_of_link(int link, uint32_t *id)
{
	struct bpf_link_info info = {};
	__u32 length = sizeof(info);
	int status = bpf_obj_get_info_by_fd(link, &info, &length);

	*id = info.prog_id;
	return status;
}

int program_of_link(int link)
{
	uint32_t id;
	int status = id_of_link(link, &id);

	return status ? status : bpf_prog_get_fd_by_id(id);
}

/* returns 1 to end the walk */
static int take_id(struct oxp_node *node, int link, uint32_t ifindex, void *id)
{
	(void)node;
	(void)ifindex;
	return id_of_link(link, id) ? 0 : 1;
}

int attached_program(struct oxp_node *node, uint32_t *id)
{
	int program;
	int status = for_each_link(node, take_id, id, NULL);

	if (status != 1)
		return status ? status : -ENOENT;
	program = bpf_prog_get_fd_by_id(*id);
	return program < 0 ? -errno : program;
}

int replace_program(int link, int program, uint32_t ifindex, char *error)
{
	int status = bpf_link_update(link, program, NULL);

	/* the interface disappeared after the link was opened */
	if (!status || status == -ENOLINK)
		return 0;
	return failure(error, status,
		       "cannot replace the program of interface %u", ifindex);
}
