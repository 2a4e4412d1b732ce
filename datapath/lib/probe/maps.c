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
	maps->targets = open_map(node, "targets");
	maps->outcomes = maps->targets < 0 ? -1 : open_map(node, "outcomes");
	if (maps->targets >= 0 && maps->outcomes >= 0)
		return 0;
	if (maps->targets < 0)
		return maps->targets;
	close(maps->targets);
	return maps->outcomes;
}

void close_probe_maps(struct probe_maps *maps)
{
	close(maps->targets);
	close(maps->outcomes);
}
