// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into a program to disturb it at a chosen place:
 *   KILL_AT=n        kill it, like kill -9, before the nth call that can change
 *                    something outside of it
 *   LINK_UPDATES=s   by each replacement of a link's program: '.' do nothing,
 *                    'F' refuse it, 'S' stop the program before it, like
 * SIGSTOP Beyond the last one, and if unset, nothing happens.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void step(void)
{
	static long left = -1;
	const char *text;

	if (left < 0) {
		text = getenv("KILL_AT");
		left = text ? atol(text) : 0;
	}
	if (left && !--left)
		kill(getpid(), SIGKILL);
}

static bool is_refused(void)
{
	static const char *next;
	char what;

	if (!next)
		next = getenv("LINK_UPDATES");
	if (!next)
		next = "";
	what = *next;
	if (what)
		next++;
	if (what == 'S')
		raise(SIGSTOP);
	return what == 'F';
}

static bool is_change(long command)
{
	switch (command) {
	case BPF_MAP_UPDATE_ELEM:
	case BPF_PROG_LOAD:
	case BPF_PROG_BIND_MAP:
	case BPF_PROG_TEST_RUN:
	case BPF_OBJ_PIN:
	case BPF_LINK_UPDATE:
		return true;
	default:
		return false;
	}
}

long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long word[6];
	va_list words;

	va_start(words, number);
	for (int i = 0; i < 6; i++)
		word[i] = va_arg(words, long);
	va_end(words);
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if ((number == SYS_bpf && is_change(word[0])) ||
	    number == SYS_membarrier)
		step();
	if (number == SYS_bpf && word[0] == BPF_LINK_UPDATE && is_refused()) {
		errno = EBUSY;
		return -1;
	}
	return next(number, word[0], word[1], word[2], word[3], word[4],
		    word[5]);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to,
	      unsigned int flags)
{
	step();
	return syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int unlinkat(int folder, const char *name, int flags)
{
	step();
	return syscall(SYS_unlinkat, folder, name, flags);
}

ssize_t sendto(int handle, const void *data, size_t length, int flags,
	       const struct sockaddr *to, socklen_t to_length)
{
	step();
	return syscall(SYS_sendto, handle, data, length, flags, to, to_length);
}

ssize_t send(int handle, const void *data, size_t length, int flags)
{
	return sendto(handle, data, length, flags, NULL, 0);
}

ssize_t write(int handle, const void *data, size_t length)
{
	step();
	return syscall(SYS_write, handle, data, length);
}
