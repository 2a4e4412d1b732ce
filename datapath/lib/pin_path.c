// SPDX-License-Identifier: Apache-2.0
#include "pin_path.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *path_below(const char *root, const char *folder, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s%s%s", root, folder, name ? "/" : "",
		     name ? name : "") < 0)
		return NULL;
	return path;
}

void remove_folder_below(const char *root, const char *folder)
{
	char *path = path_below(root, folder, NULL);
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
