// SPDX-License-Identifier: Apache-2.0
/* Reporting an upgrade. */
#include "upgrade/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "forward.skel.h"
#include "program/compare.h"
#include "program/links.h"
#include "state.h"
#include "table/blocks.h"

static int read_tag(int program, uint8_t tag[8])
{
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);
	int status = bpf_obj_get_info_by_fd(program, &info, &length);

	if (!status)
		memcpy(tag, info.tag, sizeof(info.tag));
	return status;
}

struct look {
	struct oxp_upgrade *out;
	struct forward *object; /* ours */
	char *error;
};

static int look_at_link(struct oxp_node *node, int link, uint32_t ifindex,
			void *argument)
{
	struct look *look = argument;
	struct oxp_upgrade_interface one = {
		.ifindex = ifindex,
		.changes = !is_same_program(node, link, look->object),
	};
	int program = program_of_link(link);
	int status = program < 0 ? program : read_tag(program, one.tag_before);

	if (program >= 0)
		close(program);
	if (status)
		return failure(look->error, status,
			       "cannot look at the program of interface %u",
			       ifindex);
	if (look->out->interfaces < OXP_UPGRADE_INTERFACES)
		look->out->interface[look->out->interfaces] = one;
	look->out->interfaces++;
	look->out->changes |= one.changes;
	return 0;
}

int report_interfaces(struct oxp_node *node, struct forward *object,
		      struct oxp_upgrade *out, char *error)
{
	struct look look = {out, object, error};
	int status = read_tag(bpf_program__fd(object->progs.oxp_forward),
			      out->tag_after);

	if (status)
		return failure(error, status, "cannot look at the program");
	return for_each_link(node, look_at_link, &look, error);
}

void report_services(struct oxp_node *node, struct oxp_upgrade *out)
{
	FOR_EACH_SERVICE(node, i) {
		const struct service_block *block = live_block(node, i);

		out->services++;
		for (uint32_t j = 0; j < block->members; j++)
			out->members +=
				!!(block->member[j].flags & MEMBER_PRESENT);
	}
}
