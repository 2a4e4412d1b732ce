// SPDX-License-Identifier: Apache-2.0
/* Frames through the program without a network: BPF_PROG_TEST_RUN. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/if_ether.h>

#include "forward.skel.h"
#include "internal.h"

static int load_own(struct oxp_node *node, char *error)
{
	uint32_t flags = node->config->flags & OXP_NODE_FIB;
	struct forward *object;
	int status;

	if (node->run_program >= 0 && !node->run_id && node->run_flags == flags)
		return 0;
	status = load_program(node, flags, &object, error);
	if (status)
		return status;
	if (node->run_program >= 0)
		close(node->run_program);
	node->run_program = dup(bpf_program__fd(object->progs.oxp_forward));
	status = node->run_program < 0 ? -errno : 0;
	forward__destroy(object);
	node->run_id = 0;
	node->run_flags = flags;
	return status ? failure(error, status, "cannot keep the program") : 0;
}

/* The attached program may have been replaced since the last call. */
static int find_program(struct oxp_node *node, char *error)
{
	uint32_t id;
	int program = attached_program(node, &id);

	if (program == -ENOENT)
		return load_own(node, error);
	if (program < 0)
		return failure(error, program, "cannot open the program");
	if (node->run_program >= 0)
		close(node->run_program);
	node->run_program = program;
	node->run_id = id;
	return 0;
}

int run_program(int program, struct oxp_frame *frame, char *error)
{
	/* a frame grows by the outer headers at most */
	uint8_t out[OXP_FRAME_MAX + 256];
	struct xdp_md context = {
		.data_end = frame->length,
		.ingress_ifindex = frame->ifindex,
	};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame->data,
		    .data_size_in = frame->length, .data_out = out,
		    .data_size_out = sizeof(out));
	int status;

	if (frame->length < ETH_HLEN || frame->length > OXP_FRAME_MAX)
		return failure(error, -EMSGSIZE,
			       "a frame of %u bytes, wanted are %d to %d",
			       frame->length, ETH_HLEN, OXP_FRAME_MAX);
	if (frame->ifindex) {
		options.ctx_in = &context;
		options.ctx_size_in = sizeof(context);
	}
	status = bpf_prog_test_run_opts(program, &options);
	if (status)
		return failure(error, status,
			       "cannot run a frame of %u bytes from "
			       "interface %u",
			       frame->length, frame->ifindex);
	frame->action = options.retval;
	frame->out_length = options.data_size_out;
	if (frame->out)
		memcpy(frame->out, out,
		       frame->out_length < frame->capacity ? frame->out_length
							   : frame->capacity);
	return 0;
}

int oxp_run(struct oxp_node *node, struct oxp_frame *frames, uint32_t count,
	    char *error)
{
	uint32_t done = 0;
	int status;

	pthread_mutex_lock(&node->run_mutex);
	status = find_program(node, error);
	while (!status && done < count) {
		status = run_program(node->run_program, &frames[done], error);
		done += !status;
	}
	pthread_mutex_unlock(&node->run_mutex);
	return status && !done ? status : (int)done;
}
