// SPDX-License-Identifier: Apache-2.0
/* An interface's state and sysctls, in the caller's network namespace. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tool.h"

int find_interface(const char *name, struct interface *out)
{
	struct ifreq request = {};
	int handle, status = -1;

	memset(out, 0, sizeof(*out));
	out->name = name;
	out->index = if_nametoindex(name);
	handle = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (handle < 0)
		return -1;
	strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
	if (!out->index || ioctl(handle, SIOCGIFFLAGS, &request))
		goto out;
	out->flags = (unsigned short)request.ifr_flags;
	if (ioctl(handle, SIOCGIFMTU, &request))
		goto out;
	out->mtu = request.ifr_mtu;
	if (ioctl(handle, SIOCGIFHWADDR, &request))
		goto out;
	out->ethernet = request.ifr_hwaddr.sa_family == ARPHRD_ETHER;
	status = 0;
out:
	close(handle);
	return status;
}

const char *sysctl_name(enum sysctl which)
{
	static const char *const names[SYSCTLS] = {
		[ARP_IGNORE] = "ipv4/conf/%s/arp_ignore",
		[ARP_ANNOUNCE] = "ipv4/conf/%s/arp_announce",
		[RP_FILTER] = "ipv4/conf/%s/rp_filter",
	};

	return names[which];
}

static int open_sysctl(const char *interface, const char *name, int flags)
{
	char path[128];
	size_t length = strlen("/proc/sys/net/");

	strcpy(path, "/proc/sys/net/");
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wformat-nonliteral"
	snprintf(path + length, sizeof(path) - length, name, interface);
#pragma clang diagnostic pop
	return open(path, flags | O_CLOEXEC);
}

int read_sysctl(const char *interface, const char *name, int *out)
{
	int handle = open_sysctl(interface, name, O_RDONLY);
	char text[16] = {};
	ssize_t length;

	if (handle < 0)
		return -1;
	length = read(handle, text, sizeof(text) - 1);
	close(handle);
	if (length <= 0)
		return -1;
	*out = atoi(text);
	return 0;
}

int write_sysctl(const char *interface, enum sysctl which, int value)
{
	int handle = open_sysctl(interface, sysctl_name(which), O_WRONLY);
	char text[16];
	int length = snprintf(text, sizeof(text), "%d\n", value);
	int status = 0;

	if (handle < 0 || write(handle, text, length) != length)
		status = -errno;
	if (handle >= 0)
		close(handle);
	return status;
}

/* The kernel uses the larger of the values of "all" and the interface. */
int effective_sysctl(const char *interface, enum sysctl which, int *out)
{
	int all;

	if (read_sysctl("all", sysctl_name(which), &all) ||
	    read_sysctl(interface, sysctl_name(which), out))
		return -1;
	if (all > *out)
		*out = all;
	return 0;
}

/* The value that a member needs; `effective` if that is sufficient. */
int sysctl_wanted(enum sysctl which, int effective)
{
	switch (which) {
	case ARP_IGNORE: /* only LB nodes answer ARP for the VIP */
		return effective ? effective : 1;
	case ARP_ANNOUNCE: /* and no ARP request has the VIP as its source */
		return 2;
	default: /* strict becomes loose */
		return effective == 1 ? 2 : effective;
	}
}
