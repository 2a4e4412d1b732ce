// SPDX-License-Identifier: Apache-2.0
/*
 * What is pinned where:
 *   <pin directory>/maps/<name of map>
 *   <pin directory>/links/<ifindex>
 *   <pin directory>/probes-<layout>/<name of map>, see probe/maps.c
 * The maps appear together: they are pinned in maps-new, which is renamed, or
 * changes places with the maps of another layout (upgrade/upgrade.c). Whoever
 * holds the lock and finds a maps-new that is not its own removes it.
 */
#include "pins.h"

#include <dirent.h>
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

#include "state.h"

char *pin_path(const struct oxp_node *node, const char *folder,
	       const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s%s%s", node->pin_directory, folder,
		     name ? "/" : "", name ? name : "") < 0)
		return NULL;
	return path;
}

void remove_folder(const struct oxp_node *node, const char *folder)
{
	char *path = pin_path(node, folder, NULL);
	DIR *directory = path ? opendir(path) : NULL;
	struct dirent *one;

	while (directory && (one = readdir(directory)))
		unlinkat(dirfd(directory), one->d_name, 0);
	if (directory)
		closedir(directory);
	if (path)
		rmdir(path);
	free(path);
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
