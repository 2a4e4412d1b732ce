// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "tool.h"

/* The last line of libbpf, which is printed only with an error. */
static char said[256];

static int keep(enum libbpf_print_level level, const char *format,
		va_list arguments)
{
	char *end;

	if (level != LIBBPF_WARN)
		return 0;
	vsnprintf(said, sizeof(said), format, arguments);
	end = strchr(said, '\n');
	if (end)
		*end = '\0';
	return 0;
}

void catch_libbpf(void)
{
	libbpf_set_print(keep);
}

int complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs(PROGRAM ": ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	return -1;
}

int complain_status(int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs(PROGRAM ": ", stderr);
	vfprintf(stderr, format, arguments);
	fprintf(stderr, ": %s", strerror(-status));
	if (said[0])
		fprintf(stderr, " (%s)", said);
	if (status == -EPERM)
		fputs("; it takes root, or CAP_NET_ADMIN, CAP_BPF and "
		      "CAP_SYS_ADMIN",
		      stderr);
	fputc('\n', stderr);
	va_end(arguments);
	said[0] = '\0';
	return -1;
}
