// SPDX-License-Identifier: Apache-2.0
/*
 * One at a time on a host. The lock ends with the process. The file says what
 * has no better place: that a clsact qdisc is about to be made, between which
 * and the first program, with its record, setup could be killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

#define LOCK "/run/octavia-xdp-member.lock"

static int handle = -1;

int lock(void)
{
	handle = open(LOCK, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (handle < 0 || flock(handle, LOCK_EX))
		return complain_status(-errno, "%s", LOCK);
	return 0;
}

/* Interfaces of different network namespaces share numbers. */
static int describe(const struct interface *interface, char *text, size_t size)
{
	struct stat space;

	if (stat("/proc/self/ns/net", &space))
		return complain_status(-errno, "/proc/self/ns/net");
	return snprintf(text, size, "clsact %ju %u\n", (uintmax_t)space.st_ino,
			interface->index);
}

int note_clsact(const struct interface *interface)
{
	char text[64];
	int length = describe(interface, text, sizeof(text));

	if (length < 0)
		return -1;
	if (ftruncate(handle, 0) || pwrite(handle, text, length, 0) != length)
		return complain_status(-errno, "%s", LOCK);
	return 0;
}

bool noted_clsact(const struct interface *interface)
{
	char text[64], noted[64] = {};

	return describe(interface, text, sizeof(text)) > 0 &&
	       pread(handle, noted, sizeof(noted) - 1, 0) > 0 &&
	       !strcmp(text, noted);
}

int forget_clsact(void)
{
	if (ftruncate(handle, 0))
		return complain_status(-errno, "%s", LOCK);
	return 0;
}
