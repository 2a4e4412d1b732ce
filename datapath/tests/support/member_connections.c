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
static int openers[2], opened[2]; /* listeners that accept late, and clients */
static struct position closed[2];

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

/* The kernel cannot use an IPv6 address until a moment after it was added. */
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

static int listen_on(int family, const char *vip, uint16_t port)
{
	int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage address;
	socklen_t length = socket_address(&address, family, vip, port);

	bind_soon(listener, &address, length);
	assert_int_equal(listen(listener, 8), 0);
	return listener;
}

static int connect_from(int family, const char *client, uint16_t from,
			const char *vip, uint16_t to)
{
	int connected = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage address;
	socklen_t length = socket_address(&address, family, client, from);

	bind_soon(connected, &address, length);
	length = socket_address(&address, family, vip, to);
	assert_int_equal(connect(connected, (void *)&address, length), 0);
	return connected;
}

static int accept_from(int listener)
{
	int connection = accept(listener, NULL, NULL);

	assert_true(connection >= 0);
	return connection;
}

static void set(int socket, int option, int value)
{
	assert_int_equal(
		setsockopt(socket, IPPROTO_TCP, option, &value, sizeof(value)),
		0);
}

/* Returns the next sequence number of a queue. */
static uint32_t next_of(int socket, int queue)
{
	uint32_t sequence;
	socklen_t length = sizeof(sequence);

	set(socket, TCP_REPAIR, 1);
	set(socket, TCP_REPAIR_QUEUE, queue);
	assert_int_equal(getsockopt(socket, IPPROTO_TCP, TCP_QUEUE_SEQ,
				    &sequence, &length),
			 0);
	set(socket, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	return sequence;
}

static struct position position_at(int socket)
{
	return (struct position){
		.sequence = next_of(socket, TCP_SEND_QUEUE),
		.acknowledged = next_of(socket, TCP_RECV_QUEUE),
	};
}

/* `state` as the kernel prints it; 06: TIME-WAIT, 03: SYN-RECV. */
static void wait_for_state(int family, uint16_t client, const char *state)
{
	const char *name = family == AF_INET ? "/proc/thread-self/net/tcp"
					     : "/proc/thread-self/net/tcp6";
	char line[512], wanted[16];
	bool found = false;

	snprintf(wanted, sizeof(wanted), ":%04X %s ", client, state);
	for (int i = 0; i < 5000 && !found; i++) {
		FILE *file = fopen(name, "r");

		assert_non_null(file);
		while (!found && fgets(line, sizeof(line), file))
			found = strstr(line, wanted);
		fclose(file);
		if (!found)
			usleep(1000);
	}
	assert_true(found);
}

static void close_here(int which, int family, const char *vip,
		       const char *client)
{
	int here = connect_from(family, client, CLOSED, vip, 80);
	char end;

	close(accept_from(listeners[which]));
	assert_int_equal(recv(here, &end, 1, 0), 0);
	closed[which] = position_at(here);
	closed[which].sequence++; /* its FIN */
	close(here);
	wait_for_state(family, CLOSED, "06");
}

/* The server waits for data before it opens the connection. */
static void begin_here(int which, int family, const char *vip,
		       const char *client)
{
	openers[which] = listen_on(family, vip, OPENING_PORT);
	set(openers[which], TCP_DEFER_ACCEPT, 3600);
	opened[which] =
		connect_from(family, client, OPENING, vip, OPENING_PORT);
	wait_for_state(family, OPENING, "03");
}

static void connect_here(int which, int family, const char *vip,
			 const char *client)
{
	add_address(family, vip);
	add_address(family, client);
	listeners[which] = listen_on(family, vip, 80);
	clients[which] = connect_from(family, client, HERE, vip, 80);
	accepted[which] = accept_from(listeners[which]);
	close_here(which, family, vip, client);
	begin_here(which, family, vip, client);
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
		close(opened[i]);
		close(openers[i]);
	}
	return 0;
}

struct position position_of(uint16_t port, bool v6)
{
	if (port == CLOSED)
		return closed[v6];
	return position_at(port == OPENING ? opened[v6] : clients[v6]);
}

uint32_t acknowledged_by_client(bool v6)
{
	return position_of(HERE, v6).acknowledged;
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
