// SPDX-License-Identifier: Apache-2.0
/* Loading the library that currently owns the node, and reading its stream. */
#include "upgrade/source.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.h"
#include "state.h"
#include "upgrade/reader.h"

static int find_symbols(struct source *source, const char *path, char *error)
{
	const struct {
		const char *name;
		void *pointer;
	} wanted[] = {
		{"oxp_open", &source->open},
		{"oxp_close", &source->close},
		{"oxp_handover_begin", &source->begin},
		{"oxp_export_part", &source->export_part},
		{"oxp_handover_end", &source->end},
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		void *symbol = dlsym(source->library, wanted[i].name);

		if (!symbol)
			return failure(error, -ENOSYS, "%s has no %s()", path,
				       wanted[i].name);
		memcpy(wanted[i].pointer, &symbol, sizeof(symbol));
	}
	return 0;
}

/* Look for liboctavia_xdp.so.<layout> beside this library first. */
static void *load_layout(int layout)
{
	char name[64], path[4096];
	void *library = NULL;
	Dl_info own;

	snprintf(name, sizeof(name), "liboctavia_xdp.so.%d", layout);
	if (dladdr((void *)(uintptr_t)load_source, &own)) {
		char *folder = strdup(own.dli_fname);

		if (folder &&
		    snprintf(path, sizeof(path), "%s/%s", dirname(folder),
			     name) < (int)sizeof(path))
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		free(folder);
	}
	return library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* Never unloaded: libbpf keeps a pointer to its print function until ours is
 * set again, and threads may still have its buffers. */
int load_source(struct source *source, const char *from, int layout,
		char *error)
{
	char name[64];

	snprintf(name, sizeof(name), "liboctavia_xdp.so.%d", layout);
	source->library = from ? dlopen(from, RTLD_NOW | RTLD_LOCAL)
			       : load_layout(layout);
	if (!source->library)
		return failure(error, -ELIBACC,
			       "the pinned state has layout %d, and its "
			       "library has to hand it over: %s",
			       layout, dlerror());
	return find_symbols(source, from ? from : name, error);
}

int read_source(struct source *source, enum oxp_part part, struct import **out,
		char *error)
{
	int fd = memfd_create("oxp-state", MFD_CLOEXEC), status;

	if (fd < 0)
		return failure(error, -errno, "cannot keep the state");
	status = source->export_part(source->node, fd, part, error);
	if (!status)
		status = read_stream(fd, out, error);
	close(fd);
	return status;
}
