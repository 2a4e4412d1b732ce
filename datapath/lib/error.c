// SPDX-License-Identifier: Apache-2.0
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "state.h"

/* libbpf says why a load failed in messages only: keep the last warning of
 * this thread for the caller's error text, print nothing. */
static _Thread_local char message[OXP_ERROR_LENGTH];

static int keep_message(enum libbpf_print_level level, const char *format,
			va_list arguments)
{
	if (level != LIBBPF_WARN)
		return 0;
	/* the first one is the cause, what follows are its consequences */
	if (!message[0]) {
		vsnprintf(message, sizeof(message), format, arguments);
		message[strcspn(message, "\n")] = '\0';
	}
	return 0;
}

void catch_libbpf_messages(void)
{
	libbpf_set_print(keep_message);
}

const char *last_libbpf_message(void)
{
	return message[0] ? message : "no message from libbpf";
}

void forget_libbpf_messages(void)
{
	message[0] = '\0';
}

int failure(char *error, int status, const char *format, ...)
{
	va_list arguments;
	size_t used;

	if (!error)
		return status;
	va_start(arguments, format);
	vsnprintf(error, OXP_ERROR_LENGTH, format, arguments);
	va_end(arguments);
	used = strlen(error);
	snprintf(error + used, OXP_ERROR_LENGTH - used, ": %s",
		 strerror(-status));
	return status;
}

void add_failure(char *error, const char *format, ...)
{
	va_list arguments;
	size_t used;

	if (!error)
		return;
	strncat(error, "; ", OXP_ERROR_LENGTH - 1 - strlen(error));
	used = strlen(error);
	va_start(arguments, format);
	vsnprintf(error + used, OXP_ERROR_LENGTH - used, format, arguments);
	va_end(arguments);
}

int load_failure(char *error, int status, const char *what)
{
	/* libbpf's message would lead astray */
	if (status == -EPERM)
		return failure(error, status,
			       "cannot load %s: CAP_BPF, CAP_NET_ADMIN and "
			       "CAP_PERFMON are needed",
			       what);
	return failure(error, status, "cannot load %s (%s)", what,
		       last_libbpf_message());
}
