// SPDX-License-Identifier: Apache-2.0
/*
 * Maps of marked probes, see probe.h:
 *   <pin directory>/probes-<layout>/<name of map>
 * The folder appears complete. Its maps are opened for each call, so nodes that
 * send no probes keep none of them open.
 */
#include "probe/maps.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "pins.h"
#include "probe.h"
#include "state.h"

static int open_map(const struct oxp_node *node, const char *name)
{
	char *path = pin_path(node, PROBES_FOLDER, name);
	int map = path ? bpf_obj_get(path) : -ENOMEM;

	if (path && map < 0)
		map = -errno;
	free(path);
	return map;
}

int open_probe_maps(const struct oxp_node *node, struct probe_maps *maps)
{
	int status;

	maps->targets = open_map(node, "targets");
	maps->tokens = open_map(node, "tokens");
	maps->token_networks = open_map(node, "token_networks");
	maps->outcomes = open_map(node, "outcomes");
	status = maps->targets < 0          ? maps->targets
		 : maps->tokens < 0         ? maps->tokens
		 : maps->token_networks < 0 ? maps->token_networks
		 : maps->outcomes < 0       ? maps->outcomes
					    : 0;
	if (status) {
		close_probe_maps(maps);
		*maps = (struct probe_maps){-1, -1, -1, -1};
	}
	return status;
}

void close_probe_maps(struct probe_maps *maps)
{
	const int all[] = {maps->targets, maps->tokens, maps->token_networks,
			   maps->outcomes};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i] >= 0)
			close(all[i]);
}
