// SPDX-License-Identifier: Apache-2.0
/* Listing the programs of interfaces. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "program/links.h"
#include "state.h"

struct programs {
	struct oxp_program *out;
	uint32_t capacity;
	uint32_t count;
	char *error;
};

static int look_at_program(struct programs *programs, int link,
			   uint32_t ifindex)
{
	struct bpf_prog_info info = {};
	struct oxp_program *out;
	__u32 length = sizeof(info);
	int program = program_of_link(link), status;

	if (program < 0) /* just replaced */
		return program == -ENOENT ? 0 : program;
	status = bpf_obj_get_info_by_fd(program, &info, &length);
	close(program);
	if (status || programs->count++ >= programs->capacity)
		return status;
	out = &programs->out[programs->count - 1];
	*out = (struct oxp_program){
		.ifindex = ifindex,
		.id = info.id,
		.loaded_ns = info.load_time,
		.runs = info.run_cnt,
		.run_time_ns = info.run_time_ns,
	};
	memcpy(out->tag, info.tag, sizeof(out->tag));
	memcpy(out->name, info.name, sizeof(out->name) - 1);
	return 0;
}

static int add_program(struct oxp_node *node, int link, uint32_t ifindex,
		       void *argument)
{
	struct programs *programs = argument;
	int status = look_at_program(programs, link, ifindex);

	(void)node;
	return status ? failure(programs->error, status,
				"cannot look at the program of interface "
				"%u%s",
				ifindex,
				status == -EPERM ? " (CAP_SYS_ADMIN is needed)"
						 : "")
		      : 0;
}

int oxp_programs_list(struct oxp_node *node, struct oxp_program *out,
		      uint32_t capacity, char *error)
{
	struct programs programs = {out, capacity, 0, error};
	int status = for_each_link(node, add_program, &programs, error);

	return status ? status : (int)programs.count;
}
