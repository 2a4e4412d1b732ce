// SPDX-License-Identifier: Apache-2.0
/*
 * octavia-xdp-traffic send SETTINGS RESULT
 * octavia-xdp-traffic receive INTERFACE...
 * octavia-xdp-traffic touch ADDRESS...
 *
 * Commands are lines of standard input, answers lines of JSON; format.h
 * describes files. `send` and `receive` end with standard input.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process.h"

#define PORT_DISCARD 9

/* Sends a datagram to each, so that the kernel resolves its link address. */
static int touch_main(int count, char **addresses)
{
	for (int i = 0; i < count; i++) {
		struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
					  .sin6_port = htons(PORT_DISCARD)};
		struct sockaddr_in v4 = {.sin_family = AF_INET,
					 .sin_port = htons(PORT_DISCARD)};
		struct sockaddr *address = (void *)&v4;
		socklen_t length = sizeof(v4);
		int handle;

		if (inet_pton(AF_INET6, addresses[i], &v6.sin6_addr) == 1) {
			address = (void *)&v6;
			length = sizeof(v6);
		} else if (inet_pton(AF_INET, addresses[i], &v4.sin_addr) !=
			   1) {
			fail("not an address: %s", addresses[i]);
		}
		handle = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC,
				0);
		if (handle < 0 ||
		    sendto(handle, "", 1, 0, address, length) != 1)
			fail("%s: %s", addresses[i], strerror(errno));
		close(handle);
	}
	report("{\"touched\": %d}", count);
	return 0;
}

int main(int count, char **arguments)
{
	catch_messages();
	signal(SIGPIPE, SIG_IGN);
	if (count == 4 && !strcmp(arguments[1], "send"))
		return send_main(count - 2, arguments + 2);
	if (count > 2 && !strcmp(arguments[1], "receive"))
		return receive_main(count - 2, arguments + 2);
	if (count > 2 && !strcmp(arguments[1], "touch"))
		return touch_main(count - 2, arguments + 2);
	fprintf(stderr, "usage: octavia-xdp-traffic send SETTINGS RESULT\n"
			"       octavia-xdp-traffic receive INTERFACE...\n"
			"       octavia-xdp-traffic touch ADDRESS...\n");
	return 2;
}
