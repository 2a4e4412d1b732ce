// SPDX-License-Identifier: Apache-2.0
/* Loading the program of probes over a node's maps. */
#include "probe/program.h"

#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "load/load.h"
#include "probe.h"
#include "probe.skel.h"
#include "probe/maps.h"
#include "state.h"

int load_probe_program(const struct oxp_node *node,
		       const struct probe_maps *maps, struct probe **out,
		       char *error)
{
	static const struct load load = {.what = "the program of probes"};
	struct probe *object;
	int status;

	forget_libbpf_messages();
	object = probe__open();
	if (!object)
		return load_skeleton(&load, NULL, 0, error, OXP_ERROR_LENGTH);
	status = bpf_map__reuse_fd(object->maps.config, node->map[MAP_CONFIG]);
	if (!status && maps)
		status = bpf_map__reuse_fd(object->maps.targets, maps->targets);
	if (!status && maps)
		status = bpf_map__reuse_fd(object->maps.tokens, maps->tokens);
	if (!status && maps)
		status = bpf_map__reuse_fd(object->maps.token_networks,
					   maps->token_networks);
	if (!status && maps)
		status = bpf_map__reuse_fd(object->maps.outcomes,
					   maps->outcomes);
	status = load_skeleton(&load, object->skeleton, status, error,
			       OXP_ERROR_LENGTH);
	if (status) {
		probe__destroy(object);
		return status;
	}
	*out = object;
	return 0;
}
