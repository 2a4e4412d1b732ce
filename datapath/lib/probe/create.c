// SPDX-License-Identifier: Apache-2.0
/* Creating and pinning the maps of probes, with the first target. */
#include "probe/create.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "pins.h"
#include "probe.h"
#include "probe.skel.h"
#include "probe/program.h"
#include "state.h"

static int pin_one(const struct oxp_node *node, const struct bpf_map *map,
		   const char *name)
{
	char *path = pin_path(node, PROBES_FOLDER_NEW, name);
	int status = path ? bpf_obj_pin(bpf_map__fd(map), path) : -ENOMEM;

	free(path);
	return status;
}

static int pin_all(const struct oxp_node *node, const struct probe *object)
{
	char *folder;
	int status;

	remove_folder(node, PROBES_FOLDER_NEW); /* left by a dead process */
	remove_folder(node, PROBES_FOLDER);     /* empty, if it exists */
	folder = pin_path(node, PROBES_FOLDER_NEW, NULL);
	status = !folder ? -ENOMEM : mkdir(folder, 0700) ? -errno : 0;
	free(folder);
	if (!status)
		status = pin_one(node, object->maps.targets, "targets");
	if (!status)
		status = pin_one(node, object->maps.tokens, "tokens");
	if (!status)
		status = pin_one(node, object->maps.token_networks,
				 "token_networks");
	if (!status)
		status = pin_one(node, object->maps.outcomes, "outcomes");
	if (!status)
		status = rename_folder(node, PROBES_FOLDER_NEW, PROBES_FOLDER);
	if (status)
		remove_folder(node, PROBES_FOLDER_NEW);
	return status;
}

static int create_maps(const struct oxp_node *node, char *error)
{
	struct probe *object;
	int status;

	status = load_probe_program(node, NULL, &object, error);
	if (status)
		return status;
	status = pin_all(node, object);
	probe__destroy(object);
	return status ? failure(error, status,
				"cannot pin maps of probes in "
				"%s",
				node->pin_directory)
		      : 0;
}

int open_or_create_probe_maps(const struct oxp_node *node,
			      struct probe_maps *maps, char *error)
{
	int status = open_probe_maps(node, maps);

	if (status == -ENOENT) {
		status = create_maps(node, error);
		if (status)
			return status;
		status = open_probe_maps(node, maps);
	}
	return status ? failure(error, status, "cannot open the maps of probes")
		      : 0;
}
