// SPDX-License-Identifier: Apache-2.0
#include "load/load.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>
#include <linux/capability.h>

#include "load/capabilities.h"

static _Thread_local char message[256];

static int keep_message(enum libbpf_print_level level, const char *format,
			va_list arguments)
{
	if (level != LIBBPF_WARN || message[0])
		return 0;
	vsnprintf(message, sizeof(message), format, arguments);
	message[strcspn(message, "\n")] = '\0';
	return 0;
}

void catch_libbpf_messages(void)
{
	libbpf_set_print(keep_message);
}

const char *first_libbpf_message(void)
{
	return message;
}

void forget_libbpf_messages(void)
{
	message[0] = '\0';
}

/* CAP_SYS_ADMIN includes everything that loading needs. */
static uint64_t missing_for_load(const struct load *load)
{
	uint64_t wanted = CAPABILITY(CAP_BPF) | CAPABILITY(CAP_NET_ADMIN) |
			  CAPABILITY(CAP_PERFMON);

	if (!missing_capabilities(CAPABILITY(CAP_SYS_ADMIN)))
		return 0;
	if (load->traces)
		wanted |= CAPABILITY(CAP_SYS_ADMIN);
	return missing_capabilities(wanted);
}

static void describe(const struct load *load, int status, char *text,
		     size_t length)
{
	char names[CAPABILITIES_TEXT];
	/* without CAP_PERFMON the verifier refuses more */
	bool denied = status == -EPERM || status == -EACCES;
	uint64_t missing = denied ? missing_for_load(load) : 0;

	/* libbpf's message would be misleading */
	if (missing)
		snprintf(text, length, "cannot load %s: %s: %s", load->what,
			 missing_text(missing, names), strerror(-status));
	else if (status == -EPERM)
		snprintf(text, length,
			 "cannot load %s (%s): %s, by a security policy or for "
			 "a user namespace: no capability is missing",
			 load->what, message, strerror(-status));
	else
		snprintf(text, length, "cannot load %s (%s): %s", load->what,
			 message[0] ? message : "no message from libbpf",
			 strerror(-status));
}

struct bpf_map *find_map(const struct bpf_object *object, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);
	char section[64];

	if (map)
		return map;
	snprintf(section, sizeof(section), ".data.%s", name);
	return bpf_object__find_map_by_name(object, section);
}

int load_skeleton(const struct load *load, struct bpf_object_skeleton *skeleton,
		  int status, char *text, size_t length)
{
	if (!skeleton)
		status = -errno;
	else if (!status)
		status = bpf_object__load_skeleton(skeleton);
	if (status && text)
		describe(load, status, text, length);
	return status;
}
