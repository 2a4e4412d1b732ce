// SPDX-License-Identifier: Apache-2.0
/*
 * A health checker that consists of little but system calls, as the floor for
 * comparisons. Probes each of N targets once and prints JSON.
 *
 *   prober http|tcp COUNT PORT WINDOW [tuned]
 *
 * Target i is 127.1.0.0 + i. WINDOW probes are under way at a time. "tuned"
 * delays the ACK of the handshake, so that it rides on the request, and
 * closes with a reset.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 256
#define TIMEOUT 10.0 /* seconds, for the last probe of the burst */
#define FIRST_TARGET 0x7f010000

static const char request[] = "GET / HTTP/1.0\r\nUser-Agent: bench\r\n"
			      "Accept: */*\r\nConnection: close\r\n\r\n";

static int epoll;
static bool http, tuned;
static uint16_t port;
static uint32_t count, started, done, failed;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void finish(int fd, bool success)
{
	close(fd);
	done++;
	if (!success)
		failed++;
}

/* The low half is the descriptor; set in the high half if it has sent. */
#define SENT (1ULL << 32)

static void watch(int operation, int fd, uint32_t events, uint64_t sent)
{
	struct epoll_event event = {.events = events, .data.u64 = sent | fd};

	if (epoll_ctl(epoll, operation, fd, &event)) {
		perror("epoll_ctl");
		exit(1);
	}
}

static void start(uint32_t index)
{
	struct sockaddr_in target = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(FIRST_TARGET + index),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		perror("socket");
		exit(1);
	}
	if (tuned) {
		struct linger reset = {.l_onoff = 1};
		int off = 0;

		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
	}
	if (connect(fd, (struct sockaddr *)&target, sizeof(target)) &&
	    errno != EINPROGRESS) {
		finish(fd, false);
		return;
	}
	watch(EPOLL_CTL_ADD, fd, EPOLLOUT, 0);
}

/* Checks the status line. The probe fails without a complete one in the first
 * segment, which is good enough for the servers used here. */
static void receive(int fd)
{
	char answer[512];
	ssize_t length = recv(fd, answer, sizeof(answer) - 1, 0);
	int status = 0;

	if (length < 0 && errno == EAGAIN)
		return;
	answer[length < 0 ? 0 : length] = '\0';
	finish(fd, strchr(answer, '\n') &&
			   sscanf(answer, "HTTP/1.%*1[01] %3d", &status) == 1 &&
			   status == 200);
}

static void handle(const struct epoll_event *event)
{
	int fd = (int)(event->data.u64 & (SENT - 1)), error = 0;
	socklen_t length = sizeof(error);

	if (event->data.u64 & SENT) {
		receive(fd);
		return;
	}
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error || !http) {
		finish(fd, !error);
		return;
	}
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) !=
	    (ssize_t)sizeof(request) - 1) {
		finish(fd, false);
		return;
	}
	watch(EPOLL_CTL_MOD, fd, EPOLLIN, SENT);
}

static void burst(uint32_t window)
{
	struct epoll_event events[EVENTS];
	double last = now();

	while (done < count) {
		int ready;

		while (started < count && started - done < window)
			start(started++);
		ready = epoll_wait(epoll, events, EVENTS, 100);
		for (int i = 0; i < ready; i++)
			handle(&events[i]);
		if (ready > 0)
			last = now();
		if (now() - last > TIMEOUT) {
			failed += count - done;
			return;
		}
	}
}

static double seconds(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

/* getrusage() would return that of the parent process, if it was more. */
static unsigned long most_memory(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long kilobytes = 0;
	char line[128];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "VmHWM: %lu", &kilobytes) == 1)
			break;
	fclose(file);
	return kilobytes;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	uint32_t window;
	double begin;

	if (argc < 5) {
		fprintf(stderr, "prober http|tcp COUNT PORT WINDOW [tuned]\n");
		return 2;
	}
	http = !strcmp(argv[1], "http");
	count = strtoul(argv[2], NULL, 10);
	port = strtoul(argv[3], NULL, 10);
	window = strtoul(argv[4], NULL, 10);
	tuned = argc > 5 && !strcmp(argv[5], "tuned");
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0 || !window) {
		perror("prober");
		return 1;
	}
	begin = now();
	burst(window);
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"probes\": %u, \"wall_s\": %.4f, \"user_s\": %.4f, "
	       "\"system_s\": %.4f, \"failures\": %u, \"max_rss_kb\": %lu}\n",
	       count, now() - begin, seconds(usage.ru_utime),
	       seconds(usage.ru_stime), failed, most_memory());
	return 0;
}
