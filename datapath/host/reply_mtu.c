// SPDX-License-Identifier: Apache-2.0
/*
 * The MTU of the interface by which replies leave. Programs ask the kernel
 * about packets larger than their entry's MTU, which takes half as long as
 * everything else they do: an MTU here saves that, and need not be right.
 */
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "state.h"

#define LARGEST 0xffff /* maximum for an entry */

uint16_t read_mtu(uint32_t ifindex)
{
	struct ifreq request = {};
	uint16_t mtu = 0;
	int socket_fd;

	if (!ifindex || !if_indextoname(ifindex, request.ifr_name))
		return 0;
	socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (socket_fd < 0)
		return 0;
	if (!ioctl(socket_fd, SIOCGIFMTU, &request) && request.ifr_mtu > 0)
		mtu = request.ifr_mtu < LARGEST ? request.ifr_mtu : LARGEST;
	close(socket_fd);
	return mtu;
}

void write_reply_mtu(struct oxh_host *host, uint16_t mtu)
{
	for (uint32_t i = 0; i < host->count[MAP_ENTRIES]; i++) {
		struct host_entry *entry = &entries_of(host)[i];

		if (entry->used && entry->reply_mtu != mtu)
			__atomic_store_n(&entry->reply_mtu, mtu,
					 __ATOMIC_RELAXED);
	}
}
