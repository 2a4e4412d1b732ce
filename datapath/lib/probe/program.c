// SPDX-License-Identifier: Apache-2.0
/* The program of probes over the maps of a node. */
#include "probe/program.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "probe.h"
#include "probe.skel.h"
#include "probe/maps.h"
#include "state.h"

int load_probe_program(const struct oxp_node *node,
		       const struct probe_maps *maps, struct probe **out,
		       char *error)
{
	struct probe *object;
	int status;

	forget_libbpf_messages();
	object = probe__open();
	if (!object)
		return failure(error, -errno,
			       "cannot open the BPF object of probes (%s)",
			       last_libbpf_message());
	status = bpf_map__reuse_fd(object->maps.config, node->map[MAP_CONFIG]);
	if (!status && maps)
		status = bpf_map__reuse_fd(object->maps.targets, maps->targets);
	if (!status && maps)
		status = bpf_map__reuse_fd(object->maps.outcomes,
					   maps->outcomes);
	if (!status)
		status = probe__load(object);
	if (status) {
		probe__destroy(object);
		return load_failure(error, status, "the program of probes");
	}
	*out = object;
	return 0;
}
