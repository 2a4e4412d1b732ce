// SPDX-License-Identifier: Apache-2.0
/* Repairing interfaces that run another library's program on its maps. */
#include "program/repair.h"

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
#include "program/compare.h"
#include "program/links.h"
#include "program/load.h"
#include "state.h"

struct repairing {
	struct forward *object;
	char *error;
};

static int repair_link(struct oxp_node *node, int link, uint32_t ifindex,
		       void *argument)
{
	struct repairing *repairing = argument;
	int program, status;
	uint32_t id;

	status = id_of_link(link, &id);
	if (status)
		return failure(repairing->error, status,
			       "cannot look at interface %u", ifindex);
	program = bpf_prog_get_fd_by_id(id);
	if (program >= 0) {
		status = look_at_maps(program, node->map[MAP_TABLES], NULL);
		close(program);
		if (status == 1)
			return 0;
	}
	if (!repairing->object) {
		status = load_program(node, node->config->flags,
				      &repairing->object, repairing->error);
		if (status)
			return status;
	}
	return replace_program(
		link, bpf_program__fd(repairing->object->progs.oxp_forward),
		ifindex, repairing->error);
}

int repair_programs(struct oxp_node *node, char *error)
{
	struct repairing repairing = {NULL, error};
	int status = for_each_link(node, repair_link, &repairing, error);

	forward__destroy(repairing.object);
	return status;
}
