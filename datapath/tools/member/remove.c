// SPDX-License-Identifier: Apache-2.0
/* Undoes what setup did, the record last, so that it can be repeated. */
#include <errno.h>
#include <stdio.h>

#include "tool.h"

static int restore_sysctls(const struct interface *interface,
			   const struct undo *undo)
{
	for (int i = 0; i < SYSCTLS; i++) {
		int status = undo->sysctl[i].changed
				     ? write_sysctl(interface->name, i,
						    undo->sysctl[i].value)
				     : 0;

		if (status)
			return complain_status(status, "%s: sysctls",
					       interface->name);
	}
	return 0;
}

int remove_all(struct arguments *arguments)
{
	struct interface interface;
	struct installed installed;
	int status = -1;

	if (find_interface(arguments->interface, &interface)) {
		/* Its programs and sysctls are gone with it. */
		complain("there is no interface %s", arguments->interface);
		sweep_addresses(0, NULL);
		return 1;
	}
	if (find_installed(&interface, &installed))
		return 1;
	if (!is_installed(&installed))
		printf("nothing is set up on %s\n", interface.name);
	if (!detach_ingress(&interface, &installed, true, true) &&
	    !sweep_addresses(interface.index, NULL) &&
	    !restore_sysctls(&interface, &installed.record.undo) &&
	    !detach_out(&interface, &installed) && !forget_clsact(&interface))
		status = 0;
	close_installed(&installed);
	return status ? 1 : 0;
}
