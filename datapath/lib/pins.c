// SPDX-License-Identifier: Apache-2.0
/*
 * Layout of the pin directory:
 *   <pin directory>/maps/<name of map>
 *   <pin directory>/links/<ifindex>
 *   <pin directory>/probes-<layout>/<name of map>, see probe/maps.c
 * The maps appear together: they are pinned in maps-new, which is then renamed
 * or exchanged with the maps of another layout (upgrade/upgrade.c). A process
 * that holds the lock removes any maps-new that it did not create.
 */
#include "pins.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "pin_path.h"
#include "state.h"

char *pin_path(const struct oxp_node *node, const char *folder,
	       const char *name)
{
	return path_below(node->pin_directory, folder, name);
}

char *numbered_pin_path(const struct oxp_node *node, const char *folder,
			const char *prefix, uint32_t number)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%u", prefix, number);
	return pin_path(node, folder, name);
}

void remove_folder(const struct oxp_node *node, const char *folder)
{
	remove_folder_below(node->pin_directory, folder);
}

int rename_folder(const struct oxp_node *node, const char *from, const char *to)
{
	char *old = pin_path(node, from, NULL);
	char *new = pin_path(node, to, NULL);
	int status = -ENOMEM;

	if (old && new)
		status = rename(old, new) ? -errno : 0;
	free(old);
	free(new);
	return status;
}

int exchange_folder(const struct oxp_node *node, const char *folder)
{
	char *old = pin_path(node, "maps", NULL);
	char *new = pin_path(node, folder, NULL);
	int status = -ENOMEM;

	if (old && new)
		status =
			renameat2(AT_FDCWD, new, AT_FDCWD, old, RENAME_EXCHANGE)
				? -errno
				: 0;
	free(old);
	free(new);
	return status;
}

int pin_inner(const struct oxp_node *node, enum map outer, uint32_t number,
	      int map, char *path)
{
	int status;

	if (!path)
		return -ENOMEM;
	unlink(path);
	status = bpf_obj_pin(map, path);
	free(path);
	return status ? status
		      : bpf_map_update_elem(node->map[outer], &number, &map,
					    BPF_ANY);
}
