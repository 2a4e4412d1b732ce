// SPDX-License-Identifier: Apache-2.0
#include "member_connections.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

static int listeners[2], clients[2], accepted[2];

static void add_address(int family, const char *text)
{
	char command[200];

	snprintf(command, sizeof(command), "ip address add %s/%d dev lo%s",
		 text, family == AF_INET ? 32 : 128,
		 family == AF_INET ? "" : " nodad");
	assert_int_equal(system(command), 0);
}

static socklen_t socket_address(struct sockaddr_storage *out, int family,
				const char *text, uint16_t port)
{
	struct sockaddr_in6 *v6 = (void *)out;
	struct sockaddr_in *v4 = (void *)out;

	memset(out, 0, sizeof(*out));
	out->ss_family = family;
	if (family == AF_INET) {
		v4->sin_port = htons(port);
		inet_pton(family, text, &v4->sin_addr);
		return sizeof(*v4);
	}
	v6->sin6_port = htons(port);
	inet_pton(family, text, &v6->sin6_addr);
	return sizeof(*v6);
}

/* The kernel takes an IPv6 address into use a moment after it was added. */
static void bind_soon(int socket, const struct sockaddr_storage *address,
		      socklen_t length)
{
	int error;

	for (int i = 0; i < 5000; i++) {
		error = bind(socket, (const void *)address, length);
		if (!error || errno != EADDRNOTAVAIL)
			break;
		usleep(1000);
	}
	assert_int_equal(error, 0);
}

static void connect_here(int which, int family, const char *vip,
			 const char *client)
{
	struct sockaddr_storage address;
	socklen_t length;

	add_address(family, vip);
	add_address(family, client);
	listeners[which] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	length = socket_address(&address, family, vip, 80);
	bind_soon(listeners[which], &address, length);
	assert_int_equal(listen(listeners[which], 8), 0);
	clients[which] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	length = socket_address(&address, family, client, HERE);
	bind_soon(clients[which], &address, length);
	length = socket_address(&address, family, vip, 80);
	assert_int_equal(connect(clients[which], (void *)&address, length), 0);
	accepted[which] = accept(listeners[which], NULL, NULL);
	assert_true(accepted[which] >= 0);
}

int open_connections(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNET))
		return -errno;
	assert_int_equal(system("ip link set lo up"), 0);
	connect_here(0, AF_INET, VIP, CLIENT);
	connect_here(1, AF_INET6, VIP6, CLIENT6);
	return 0;
}

int close_connections(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		close(accepted[i]);
		close(clients[i]);
		close(listeners[i]);
	}
	return 0;
}

uint32_t acknowledged_by_client(bool v6)
{
	const int on = 1, off = 0, receive_queue = 1;
	uint32_t sequence;
	socklen_t length = sizeof(sequence);

	/* What the client has received. */
	assert_int_equal(setsockopt(clients[v6], IPPROTO_TCP, TCP_REPAIR, &on,
				    sizeof(on)),
			 0);
	assert_int_equal(setsockopt(clients[v6], IPPROTO_TCP, TCP_REPAIR_QUEUE,
				    &receive_queue, sizeof(receive_queue)),
			 0);
	assert_int_equal(getsockopt(clients[v6], IPPROTO_TCP, TCP_QUEUE_SEQ,
				    &sequence, &length),
			 0);
	assert_int_equal(setsockopt(clients[v6], IPPROTO_TCP, TCP_REPAIR, &off,
				    sizeof(off)),
			 0);
	return sequence;
}

void send_to_client(bool v6, size_t length)
{
	static char bytes[4096];
	struct tcp_info info = {};
	socklen_t size = sizeof(info);

	for (size_t sent = 0; sent < length; sent += sizeof(bytes)) {
		assert_int_equal(send(accepted[v6], bytes, sizeof(bytes), 0),
				 sizeof(bytes));
		assert_int_equal(
			recv(clients[v6], bytes, sizeof(bytes), MSG_WAITALL),
			sizeof(bytes));
	}
	do {
		assert_int_equal(getsockopt(accepted[v6], IPPROTO_TCP, TCP_INFO,
					    &info, &size),
				 0);
	} while (info.tcpi_unacked);
}
