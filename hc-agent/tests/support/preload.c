// SPDX-License-Identifier: Apache-2.0
/*
 * Loaded before the program under test: a clock that jumps, and death at a
 * chosen step of its writing.
 *
 * FAULTS_CLOCK names a file with seconds to add to CLOCK_REALTIME, read at
 * each look at the clock. FAULTS_STEP is the number, from 1, of the call that
 * the process does not survive; counted are creating, writing and renaming
 * files of a directory "queue". The write that kills does half of its work.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int steps;
static atomic_int queue_fd = -1;

static int is_step(void)
{
	const char *wanted = getenv("FAULTS_STEP");

	return wanted && atomic_fetch_add(&steps, 1) + 1 == atoi(wanted);
}

static void die(void)
{
	kill(getpid(), SIGKILL);
	pause();
}

int clock_gettime(clockid_t id, struct timespec *time)
{
	const char *name = getenv("FAULTS_CLOCK");
	int status = syscall(SYS_clock_gettime, id, time);
	char text[32] = {};
	int fd;

	if (status || id != CLOCK_REALTIME || !name)
		return status;
	fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (syscall(SYS_read, fd, text, sizeof(text) - 1) > 0)
		time->tv_sec += atoll(text);
	syscall(SYS_close, fd);
	return 0;
}

int open64(const char *path, int flags, ...)
{
	int fd, ours = (flags & O_CREAT) && strstr(path, "/queue/");
	mode_t mode = 0;
	va_list rest;

	if (flags & O_CREAT) {
		va_start(rest, flags);
		mode = va_arg(rest, mode_t);
		va_end(rest);
	}
	if (ours && is_step())
		die();
	fd = openat(AT_FDCWD, path, flags, mode);
	if (ours)
		atomic_store(&queue_fd, fd);
	return fd;
}

ssize_t write(int fd, const void *data, size_t length)
{
	if (fd == atomic_load(&queue_fd) && is_step()) {
		syscall(SYS_write, fd, data, length / 2);
		die();
	}
	return syscall(SYS_write, fd, data, length);
}

int close(int fd)
{
	atomic_compare_exchange_strong(&queue_fd, &(int){fd}, -1);
	return syscall(SYS_close, fd);
}

int rename(const char *from, const char *to)
{
	if (strstr(to, "/queue/") && is_step())
		die();
	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
