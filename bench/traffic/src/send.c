// SPDX-License-Identifier: Apache-2.0
/*
 * Sends the streams of a file, each in its own thread. Reports "ready", waits
 * for a line "start", reports "started" when the flows are open and "finished"
 * when the result is written. "stop" ends it early.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/if_ether.h>

#include "format.h"
#include "process.h"
#include "send_state.h"

#include "send.skel.h"

/*
 * Frames of a call. In each call the kernel changes a trampoline twice
 * (bpf_dispatcher_change_prog), which takes tens of milliseconds. So there is
 * one call, which is ended by a signal.
 */
#define REPEAT INT_MAX
#define WATCH_US 500
#define BATCH 64
#define PRIORITY (-20)

struct sender {
	struct stream stream;
	struct send *programs;
	pthread_t thread;
	pid_t id;
	uint64_t *sent;
	uint8_t *frame;
	atomic_bool running;
};

static struct sender senders[STREAMS_MAX];
static unsigned int sender_count;
static pthread_barrier_t loaded, begun;
static atomic_bool stopping;

static void fill_destinations(struct sender *sender, struct content *content)
{
	int map = bpf_map__fd(sender->programs->maps.destinations);

	for (uint32_t i = 0; i < sender->stream.destinations; i++)
		fill_map(map, i, take(content, sizeof(struct destination)));
}

static void fill_halves(struct bpf_map *map, uint32_t count,
			struct content *content)
{
	for (uint32_t i = 0; i < count; i++)
		fill_map(bpf_map__fd(map), i, take(content, 2));
}

static void check_stream(const struct stream *stream)
{
	if (!stream->destinations || stream->destinations > DESTINATIONS_MAX ||
	    !stream->slots || !stream->sizes || stream->sizes > SIZES_MAX ||
	    stream->flows > FLOWS_MAX || stream->frame < FRAME_HEAD ||
	    stream->frame > FRAME_MAX)
		fail("stream %u: settings out of range", stream->id);
}

static void prepare(struct sender *sender, struct content *content)
{
	struct send *programs;
	size_t length, page = sysconf(_SC_PAGESIZE);

	sender->stream =
		*(const struct stream *)take(content, sizeof(struct stream));
	check_stream(&sender->stream);
	programs = send__open();
	load_or_fail(programs ? 0 : -errno, "the sending program");
	sender->programs = programs;
	memcpy((void *)&programs->rodata->stream, &sender->stream,
	       sizeof(sender->stream));
	set_entries(programs->maps.destinations, sender->stream.destinations);
	set_entries(programs->maps.sent, sender->stream.destinations);
	set_entries(programs->maps.slots, sender->stream.slots);
	set_entries(programs->maps.sizes, sender->stream.sizes);
	sender->frame = calloc(1, sender->stream.frame);
	length = (sender->stream.destinations * 8 + page - 1) / page * page;
	if (!sender->frame)
		fail("no memory");
	programs->rodata->thread = sender->id;
	load_or_fail(send__load(programs), "the sending program");
	load_or_fail(send__attach(programs), "xdp_devmap_xmit");
	sender->sent = mmap(NULL, length, PROT_READ, MAP_SHARED,
			    bpf_map__fd(programs->maps.sent), 0);
	if (sender->sent == MAP_FAILED)
		fail("counters of destinations: %s", strerror(errno));
	fill_destinations(sender, content);
	fill_halves(programs->maps.slots, sender->stream.slots, content);
	fill_halves(programs->maps.sizes, sender->stream.sizes, content);
	take(content, -(uintptr_t)content->at % 8);
}

static void run(struct sender *sender, struct bpf_program *program)
{
	struct send_state *state = &sender->programs->bss->state;
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = sender->frame,
		    .data_size_in = sender->stream.frame, .repeat = REPEAT,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = BATCH);

	state->due = 0;
	state->start = 0;
	while (!__atomic_load_n(&state->done, __ATOMIC_RELAXED))
		if (bpf_prog_test_run_opts(bpf_program__fd(program),
					   &options) &&
		    errno != EINTR && errno != EAGAIN)
			fail("live frames: %s", strerror(errno));
	/* nothing but the opening has been sent */
	__atomic_store_n(&state->done, 0, __ATOMIC_RELAXED);
}

/* Ends the calls of threads whose program has nothing more to send, until all
 * have ended. */
static void watch(void)
{
	bool running = true;

	while (running) {
		running = false;
		usleep(WATCH_US);
		for (unsigned int i = 0; i < sender_count; i++) {
			struct send_state *state =
				&senders[i].programs->bss->state;

			if (!atomic_load(&senders[i].running))
				continue;
			running = true;
			if (atomic_load(&stopping))
				state->stopped = 1;
			if (__atomic_load_n(&state->done, __ATOMIC_RELAXED))
				pthread_kill(senders[i].thread, SIGUSR1);
		}
	}
}

static void set_running(void)
{
	for (unsigned int i = 0; i < sender_count; i++)
		atomic_store(&senders[i].running, true);
}

static void interrupt(int signal)
{
	(void)signal;
}

/* Without SA_RESTART, so that the call ends. */
static void catch_interrupts(void)
{
	struct sigaction action = {.sa_handler = interrupt};

	if (sigaction(SIGUSR1, &action, NULL))
		fail("SIGUSR1: %s", strerror(errno));
}

/* Raises the priority of the session's processes against others, as PRIORITY
 * acts within the session. Without autogroups there is no such file. */
static void raise_session(void)
{
	FILE *file = fopen("/proc/self/autogroup", "we");

	if (!file)
		return;
	fprintf(file, "%d", PRIORITY);
	fclose(file);
}

static void *work(void *argument)
{
	struct sender *sender = argument;

	sender->id = syscall(SYS_gettid);
	pthread_barrier_wait(&loaded);
	/* the main thread loads the programs, which contain this thread's id */
	pthread_barrier_wait(&loaded);
	/* One that waits for a processor would miss its rate; of this thread.
	 * If it is not permitted, the rate shows it. */
	setpriority(PRIO_PROCESS, 0, PRIORITY);
	if (sender->stream.kind == KIND_OPENED)
		run(sender, sender->programs->progs.send_opening);
	atomic_store(&sender->running, false);
	pthread_barrier_wait(&begun);
	run(sender, sender->programs->progs.send_next);
	atomic_store(&sender->running, false);
	return NULL;
}

static void write_stream(FILE *file, const struct sender *sender)
{
	const struct send_state *state = &sender->programs->bss->state;
	uint32_t tenths = state->sent ? state->tenth + 1 : 0;
	struct stream_sent result = {
		.sent = state->sent,
		.opened = state->opened,
		.refused = state->refused,
		.last_ns = state->last,
		.id = sender->stream.id,
		.destinations = sender->stream.destinations,
		.timeline = tenths > TIMELINE_MAX ? TIMELINE_MAX : tenths,
		.complete = !state->stopped,
		.error = state->error,
	};

	write_all(file, &result, sizeof(result));
	write_all(file, sender->sent, result.destinations * sizeof(uint64_t));
	write_all(file, sender->programs->bss->timeline,
		  result.timeline * sizeof(uint32_t));
}

static void write_result(const char *path)
{
	struct sent_file head = {.version = FORMAT_VERSION,
				 .streams = sender_count};
	FILE *file = fopen(path, "we");

	if (!file)
		fail("%s: %s", path, strerror(errno));
	write_all(file, &head, sizeof(head));
	for (unsigned int i = 0; i < sender_count; i++)
		write_stream(file, &senders[i]);
	if (fclose(file))
		fail("%s: %s", path, strerror(errno));
}

static void prepare_all(const char *path)
{
	struct content content = read_file(path);
	const struct send_file *head = take(&content, sizeof(*head));

	if (head->version != FORMAT_VERSION || !head->streams ||
	    head->streams > STREAMS_MAX)
		fail("%s: not settings of version %d", path, FORMAT_VERSION);
	sender_count = head->streams;
	pthread_barrier_init(&loaded, NULL, sender_count + 1);
	pthread_barrier_init(&begun, NULL, sender_count + 1);
	for (unsigned int i = 0; i < sender_count; i++)
		if (pthread_create(&senders[i].thread, NULL, work, &senders[i]))
			fail("no thread");
	pthread_barrier_wait(&loaded);
	for (unsigned int i = 0; i < sender_count; i++)
		prepare(&senders[i], &content);
}

/* Stops at "stop", or at the end of input, when the caller is gone. */
static void *listen_for_stop(void *unused)
{
	char line[64];

	(void)unused;
	while (read_line(line, sizeof(line), -1) == INPUT_LINE)
		if (!strcmp(line, "stop"))
			break;
	atomic_store(&stopping, true);
	return NULL;
}

int send_main(int count, char **arguments)
{
	pthread_t listener;
	char line[64];

	(void)count;
	catch_interrupts();
	prepare_all(arguments[0]);
	raise_session();
	report_clock("ready");
	if (read_line(line, sizeof(line), -1) != INPUT_LINE)
		return 0;
	if (strcmp(line, "start"))
		fail("expected start, not %s", line);
	if (pthread_create(&listener, NULL, listen_for_stop, NULL))
		fail("no thread");
	set_running();
	pthread_barrier_wait(&loaded);
	watch();
	set_running();
	report_clock("started");
	pthread_barrier_wait(&begun);
	watch();
	for (unsigned int i = 0; i < sender_count; i++)
		pthread_join(senders[i].thread, NULL);
	write_result(arguments[1]);
	report_clock("finished");
	return 0;
}
