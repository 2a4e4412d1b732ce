// SPDX-License-Identifier: Apache-2.0
/*
 * Attaching the program of probes where packets leave: a filter of the clsact
 * qdisc, which all supported kernels have, at the highest priority, where other
 * programs may be as well. The qdisc stays when the filter is removed: others
 * may use it.
 */
#include "probe/attach.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "load/load.h"
#include "node/lock.h"
#include "probe.h"
#include "probe.skel.h"
#include "probe/maps.h"
#include "probe/program.h"
#include "state.h"

#define PRIORITY 1
#define HANDLE 0x6f7870
#define PROGRAM_MAPS 8 /* more than the program has */

static int info_of(int program, struct bpf_prog_info *info, __u32 *maps,
		   __u32 count)
{
	__u32 length = sizeof(*info);

	memset(info, 0, sizeof(*info));
	info->map_ids = (uintptr_t)maps;
	info->nr_map_ids = count;
	return bpf_obj_get_info_by_fd(program, info, &length);
}

/* Find the filter at our place. Returns a descriptor of its program if that is
 * ours; -ENOENT: there is no filter; -EBUSY: it is not ours. */
static int find_ours(uint32_t ifindex)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex,
			    .attach_point = BPF_TC_EGRESS);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, place, .handle = HANDLE,
			    .priority = PRIORITY);
	struct bpf_prog_info info;
	int program, status;

	forget_libbpf_messages();
	status = bpf_tc_query(&hook, &place);
	/* EINVAL: no qdisc, or no filter of this priority */
	if (status == -EINVAL)
		return -ENOENT;
	if (status)
		return status;
	program = bpf_prog_get_fd_by_id(place.prog_id);
	if (program < 0)
		return -errno;
	status = info_of(program, &info, NULL, 0);
	if (!status && strcmp(info.name, PROBES_PROGRAM))
		status = -EBUSY;
	if (!status)
		return program;
	close(program);
	return status;
}

/* Whether both programs do the same over the same maps, which the kernel lists
 * in the order of the instructions. */
static bool is_same(int program, int other)
{
	__u32 maps[PROGRAM_MAPS] = {}, other_maps[PROGRAM_MAPS] = {};
	struct bpf_prog_info info, other_info;

	return !info_of(program, &info, maps, PROGRAM_MAPS) &&
	       !info_of(other, &other_info, other_maps, PROGRAM_MAPS) &&
	       !memcmp(info.tag, other_info.tag, sizeof(info.tag)) &&
	       !memcmp(maps, other_maps, sizeof(maps));
}

static int attach(uint32_t ifindex, int program, const char *name, char *error)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex,
			    .attach_point = BPF_TC_EGRESS);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, place, .handle = HANDLE,
			    .priority = PRIORITY, .prog_fd = program,
			    .flags = BPF_TC_F_REPLACE);
	int status;

	forget_libbpf_messages();
	status = bpf_tc_hook_create(&hook);
	if (status && status != -EEXIST)
		return failure(error, status,
			       "cannot make a clsact qdisc on %s (%s)", name,
			       first_libbpf_message());
	status = bpf_tc_attach(&hook, &place);
	return status ? failure(error, status,
				"cannot attach the program of probes to %s "
				"(%s)",
				name, first_libbpf_message())
		      : 0;
}

static int attach_locked(struct oxp_node *node, uint32_t ifindex,
			 const char *name, char *error)
{
	struct probe_maps maps;
	struct probe *object;
	int program, present, status;

	status = open_probe_maps(node, &maps);
	if (status)
		return failure(error, status, "no targets of probes");
	status = load_probe_program(node, &maps, &object, error);
	if (!status) {
		program = bpf_program__fd(object->progs.oxp_probe);
		present = find_ours(ifindex);
		if (present == -EBUSY)
			status = failure(error, present,
					 "%s has another program where that "
					 "of probes belongs (egress, priority "
					 "%d, handle 0x%x)",
					 name, PRIORITY, HANDLE);
		else if (present < 0 || !is_same(present, program))
			status = attach(ifindex, program, name, error);
		if (present >= 0)
			close(present);
		probe__destroy(object);
	}
	close_probe_maps(&maps);
	return status;
}

int oxp_probe_attach(struct oxp_node *node, uint32_t ifindex, char *error)
{
	char name[IF_NAMESIZE];
	int status;

	if (!if_indextoname(ifindex, name))
		return failure(error, -ENODEV, "interface %u", ifindex);
	status = lock_node(node, error);
	if (status)
		return status;
	status = attach_locked(node, ifindex, name, error);
	unlock_node(node);
	return status;
}

static int detach(uint32_t ifindex)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex,
			    .attach_point = BPF_TC_EGRESS);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, place, .handle = HANDLE,
			    .priority = PRIORITY);
	int program = find_ours(ifindex);

	if (program < 0)
		return program == -EBUSY ? -ENOENT : program;
	close(program);
	return bpf_tc_detach(&hook, &place);
}

int detach_probes(char *error)
{
	struct if_nameindex *interfaces = if_nameindex();
	int status = 0, count = 0;

	if (!interfaces)
		return failure(error, -errno, "cannot list interfaces");
	for (struct if_nameindex *one = interfaces; one->if_index && !status;
	     one++) {
		status = detach(one->if_index);
		count += !status;
		/* not attached, or the interface is gone */
		if (status == -ENOENT || status == -ENODEV)
			status = 0;
		if (status)
			failure(error, status,
				"cannot detach the program of probes from %s",
				one->if_name);
	}
	if_freenameindex(interfaces);
	return status ? status : count;
}
