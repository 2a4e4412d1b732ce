// SPDX-License-Identifier: Apache-2.0
/* Replacing the program of all interfaces, or of none. */
#include "program/replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "forward.skel.h"
#include "program/compare.h"
#include "program/links.h"
#include "state.h"

/* All links to change, with their previous programs: a program is freed with
 * its last link, and each link may have had another one. */
struct replacement {
	struct forward *object;
	struct {
		uint32_t ifindex;
		int link, before;
	} *one;
	uint32_t count;
	char *error;
};

static int collect(struct oxp_node *node, int link, uint32_t ifindex,
		   void *argument)
{
	struct replacement *all = argument;
	int before, copy;
	void *again;

	if (is_same_program(node, link, all->object))
		return 0;
	again = realloc(all->one, (all->count + 1) * sizeof(*all->one));
	before = copy = again ? program_of_link(link) : -ENOMEM;
	if (again)
		all->one = again;
	/* without CAP_SYS_ADMIN programs can be replaced but not restored */
	if (before >= 0 || before == -EPERM) {
		copy = fcntl(link, F_DUPFD_CLOEXEC, 0);
		copy = copy < 0 ? -errno : copy;
	}
	if (copy < 0 && before >= 0)
		close(before);
	if (copy < 0)
		return failure(all->error, copy,
			       "cannot keep the program of interface %u",
			       ifindex);
	all->one[all->count].ifindex = ifindex;
	all->one[all->count].link = copy;
	all->one[all->count++].before = before;
	return 0;
}

/* Restore the first `count` links. */
static void go_back(const struct replacement *all, uint32_t count)
{
	char text[OXP_ERROR_LENGTH];

	while (count--)
		if (all->one[count].before < 0)
			add_failure(all->error,
				    "interface %u keeps the new one: going "
				    "back needs CAP_SYS_ADMIN",
				    all->one[count].ifindex);
		else if (replace_program(all->one[count].link,
					 all->one[count].before,
					 all->one[count].ifindex, text))
			add_failure(all->error, "going back: %s", text);
}

int replace_programs(struct oxp_node *node, struct forward *object, char *error)
{
	struct replacement all = {.object = object, .error = error};
	int program = bpf_program__fd(object->progs.oxp_forward);
	int status = for_each_link(node, collect, &all, error);

	for (uint32_t i = 0; i < all.count && !status; i++) {
		status = replace_program(all.one[i].link, program,
					 all.one[i].ifindex, error);
		if (status)
			go_back(&all, i);
	}
	for (uint32_t i = 0; i < all.count; i++) {
		close(all.one[i].link);
		if (all.one[i].before >= 0)
			close(all.one[i].before);
	}
	free(all.one);
	return status;
}
