// SPDX-License-Identifier: Apache-2.0
/*
 * The note that a clsact qdisc is about to be created: setup could be killed
 * between that and the first program, which has the record. The note is a file,
 * one for each interface of each network namespace, as namespaces do not affect
 * each other. The file is named by the namespace's cookie, which is never
 * reused, unlike inode numbers. It contains the boot id, as cookies repeat
 * after a boot, which a container's /run may outlast.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tool.h"

#define NOTE "/run/octavia-xdp-member.clsact-%" PRIu64 "-%u"
#define NOTE_NAME 80
#define BOOT "/proc/sys/kernel/random/boot_id"
#define NOTE_TEXT 64

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static int find_cookie(uint64_t *out)
{
	socklen_t length = sizeof(*out);
	int any = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int status = any < 0 || getsockopt(any, SOL_SOCKET, SO_NETNS_COOKIE,
					   out, &length)
			     ? -errno
			     : 0;

	if (any >= 0)
		close(any);
	return status ? complain_status(status, "the network namespace") : 0;
}

static int name_note(const struct interface *interface, char name[NOTE_NAME])
{
	uint64_t cookie;

	if (find_cookie(&cookie))
		return -1;
	snprintf(name, NOTE_NAME, NOTE, cookie, interface->index);
	return 0;
}

/* Reads a small file as text; -1: error. */
static int read_text(const char *name, char text[NOTE_TEXT])
{
	int file = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, NOTE_TEXT - 1);

	if (file >= 0)
		close(file);
	if (length < 0)
		return -1;
	text[length] = '\0';
	return 0;
}

int note_clsact(const struct interface *interface)
{
	char name[NOTE_NAME], boot[NOTE_TEXT];
	ssize_t length, written;
	int file;

	if (name_note(interface, name))
		return -1;
	if (read_text(BOOT, boot))
		return complain_status(-errno, "%s", BOOT);
	length = strlen(boot);
	file = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	written = file < 0 ? -1 : write(file, boot, length);
	if (written != length) {
		complain_status(written < 0 ? -errno : -ENOSPC, "%s", name);
		if (file >= 0)
			close(file);
		return -1;
	}
	close(file);
	return 0;
}

bool noted_clsact(const struct interface *interface)
{
	char name[NOTE_NAME], boot[NOTE_TEXT], noted[NOTE_TEXT];

	return !name_note(interface, name) && !read_text(BOOT, boot) &&
	       !read_text(name, noted) && !strcmp(boot, noted);
}

int forget_clsact(const struct interface *interface)
{
	char name[NOTE_NAME];

	if (name_note(interface, name))
		return -1;
	if (unlinkat(AT_FDCWD, name, 0) && errno != ENOENT)
		return complain_status(-errno, "%s", name);
	return 0;
}
