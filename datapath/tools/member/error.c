// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <linux/capability.h>

#include "load/capabilities.h"
#include "load/load.h"
#include "tool.h"

/* Capabilities for the tool's calls except loading, which names its own. */
#define NEEDED                                                                 \
	(CAPABILITY(CAP_NET_ADMIN) | CAPABILITY(CAP_BPF) |                     \
	 CAPABILITY(CAP_SYS_ADMIN))

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
	uint64_t missing = status == -EPERM ? missing_capabilities(NEEDED) : 0;
	char names[CAPABILITIES_TEXT];
	va_list arguments;

	va_start(arguments, format);
	fputs(PROGRAM ": ", stderr);
	vfprintf(stderr, format, arguments);
	fprintf(stderr, ": %s", strerror(-status));
	if (first_libbpf_message()[0])
		fprintf(stderr, " (%s)", first_libbpf_message());
	if (missing)
		fprintf(stderr, "; %s", missing_text(missing, names));
	fputc('\n', stderr);
	va_end(arguments);
	forget_libbpf_messages();
	return -1;
}
