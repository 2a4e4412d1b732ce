// SPDX-License-Identifier: Apache-2.0
/* Comparing programs. */
#include "program/compare.h"

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
#include "program/links.h"
#include "state.h"

int look_at_maps(int program, int map, int *rodata)
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
