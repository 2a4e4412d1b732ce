// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting for packets. membarrier() returns after every CPU has left the code
 * that held RCU's read lock or had softirqs disabled, as XDP programs do: 8 to
 * 24 ms. Nothing cheaper guarantees this: expedited membarriers only interrupt
 * CPUs, and the program resumes afterwards. So batches wait once, and
 * oxp_slots_age() waits in advance for later callers.
 */
#include "synchronize.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"

static int membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

bool can_synchronize(void)
{
	int commands = membarrier(MEMBARRIER_CMD_QUERY);

	return commands > 0 && commands & MEMBARRIER_CMD_GLOBAL;
}

int synchronize(char *error)
{
	if (membarrier(MEMBARRIER_CMD_GLOBAL))
		return failure(error, -errno, "membarrier");
	return 0;
}
