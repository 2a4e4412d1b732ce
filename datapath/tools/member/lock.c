// SPDX-License-Identifier: Apache-2.0
/* Only one process at a time per host. The lock ends with the process. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "tool.h"

#define LOCK "/run/octavia-xdp-member.lock"

int lock(void)
{
	int handle = open(LOCK, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	if (handle < 0 || flock(handle, LOCK_EX))
		return complain_status(-errno, "%s", LOCK);
	return 0;
}
