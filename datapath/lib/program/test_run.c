// SPDX-License-Identifier: Apache-2.0
/* Running frames through the program without a network: BPF_PROG_TEST_RUN. */
#include "program/test_run.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"
#include "state.h"

int run_program(int program, struct oxp_frame *frame, char *error)
{
	/* the outer headers are all that a frame can grow by */
	uint8_t out[OXP_FRAME_MAX + 256];
	struct xdp_md context = {
		.data_end =
			frame->first_bytes ? frame->first_bytes : frame->length,
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
	if (frame->first_bytes && (frame->first_bytes < ETH_HLEN ||
				   frame->first_bytes > frame->length))
		return failure(error, -EINVAL,
			       "a first buffer of %u bytes, wanted are %d to "
			       "the frame's %u",
			       frame->first_bytes, ETH_HLEN, frame->length);
	if (frame->ifindex || frame->first_bytes) {
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
