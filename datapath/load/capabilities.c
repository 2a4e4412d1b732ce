// SPDX-License-Identifier: Apache-2.0
#include "load/capabilities.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

/* Of this thread, like CapEff in /proc/thread-self/status. If they cannot be
 * read, all are missing. */
uint64_t missing_capabilities(uint64_t wanted)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = {};

	if (syscall(SYS_capget, &head, data))
		return wanted;
	return wanted &
	       ~(data[0].effective | (uint64_t)data[1].effective << 32);
}

const char *missing_text(uint64_t missing, char text[CAPABILITIES_TEXT])
{
	static const struct {
		int number;
		const char *name;
	} named[] = {
		{CAP_BPF, "CAP_BPF"},
		{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
		{CAP_PERFMON, "CAP_PERFMON"},
		{CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
	};
	int count = __builtin_popcountll(missing), left = count;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
		if (!(missing & CAPABILITY(named[i].number)))
			continue;
		if (left < count)
			strcat(text, left == 1 ? " and " : ", ");
		strcat(text, named[i].name);
		left--;
	}
	strcat(text, count > 1 ? " are missing" : " is missing");
	return text;
}
