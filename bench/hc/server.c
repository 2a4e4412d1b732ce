// SPDX-License-Identifier: Apache-2.0
/*
 * The targets of the benchmarks: every address of the loopback network at one
 * port.
 *
 *   server http|tcp PORT PROCESSES
 *
 * "http" answers each request with a short 200 and closes; "tcp" holds a
 * connection until the other side closes it. Prints "ready" once it listens,
 * and ends with its standard input.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 256
#define ACCEPTS 64 /* at a time */
#define PROCESSES_MAX 64

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"
			     "Connection: close\r\n\r\nok\n";

static int epoll, listener;
static bool http;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void open_listener(uint16_t port)
{
	struct sockaddr_in any = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};
	int on = 1;

	listener =
		socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0 ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    bind(listener, (struct sockaddr *)&any, sizeof(any)) ||
	    listen(listener, 65535))
		fail("listen");
}

static void watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		fail("epoll_ctl");
}

/* Requests are small and arrive in one piece. False: nothing has arrived. */
static bool serve(int fd)
{
	char request[1024];
	ssize_t length = recv(fd, request, sizeof(request), 0);

	if (length < 0 && errno == EAGAIN)
		return false;
	if (length > 0) {
		if (!http)
			return false;
		send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
	}
	close(fd);
	return true;
}

static void take(void)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(listener, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return; /* out of descriptors: the backlog waits */
		if (!serve(fd))
			watch(fd);
	}
}

static void loop(void)
{
	struct epoll_event events[EVENTS];

	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		fail("epoll_create1");
	watch(listener);
	for (;;) {
		int ready = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < ready; i++) {
			if (events[i].data.fd == listener)
				take();
			else
				serve(events[i].data.fd);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned long processes = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
	struct rlimit limit;
	char byte;

	if (argc < 3 || !processes || processes > PROCESSES_MAX) {
		fprintf(stderr, "server http|tcp PORT PROCESSES\n");
		return 2;
	}
	http = !strcmp(argv[1], "http");
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned long i = 0; i < processes; i++) {
		/* before fork(), so that "ready" is true */
		open_listener(strtoul(argv[2], NULL, 10));
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			loop();
		}
		close(listener);
	}
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
