// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <netinet/in.h>

#include <bpf/bpf.h>

#include "batches.h"
#include "floor.skel.h"
#include "wrapper.skel.h"

#define PACKETS 50000
#define QUIET_RUNS_MAX 40
#define RUNS_FOR_QUIET 10 /* at most, per quiet run */
#define RUNS_MAX (RUNS_FOR_QUIET * QUIET_RUNS_MAX)
#define TOLERANCE 10 /* percent above the harness's least */

#define SYN 0x02
#define ACK 0x10

int quiet_runs_wanted = QUIET_RUNS_MAX;

struct frame_at {
	unsigned char data[128];
	size_t length;
	unsigned int source, ports;
};

static void put_tcp(unsigned char *l4, const struct traffic *traffic)
{
	static const unsigned char mss[] = {2, 4, 1460 >> 8, 1460 & 255};

	l4[12] = (20 + traffic->options) / 4 << 4;
	l4[13] = traffic->tcp_flags;
	memset(l4 + 20, 1, traffic->options);
	if (traffic->options)
		memcpy(l4 + 20, mss, sizeof(mss));
}

static void build(struct frame_at *out, const struct traffic *traffic)
{
	bool v6 = strchr(traffic->destination, ':');
	unsigned int ip_length = v6 ? 40 : 20;
	unsigned int l4_length =
		traffic->protocol == IPPROTO_TCP ? 20 + traffic->options : 18;
	unsigned char *ip = out->data + 14, *l4 = ip + ip_length;

	memset(out, 0, sizeof(*out));
	out->data[0] = out->data[6] = 2;
	out->length = 14 + ip_length + l4_length;
	out->length = (out->length + 7) & ~7UL; /* pad to whole words */
	out->ports = 14 + ip_length;
	out->source = 14 + (v6 ? 20 : 12);
	if (v6) {
		memcpy(out->data + 12, "\x86\xdd", 2);
		ip[0] = 0x60;
		ip[5] = l4_length;
		ip[6] = traffic->protocol;
		ip[7] = 60;
		inet_pton(AF_INET6, "2001:db8:c::", ip + 8);
		inet_pton(AF_INET6, traffic->destination, ip + 24);
	} else {
		memcpy(out->data + 12, "\x08\x00", 2);
		ip[0] = 0x45;
		ip[3] = ip_length + l4_length;
		ip[6] = 0x40;
		ip[8] = 60;
		ip[9] = traffic->protocol;
		inet_pton(AF_INET, "20.0.0.0", ip + 12);
		inet_pton(AF_INET, traffic->destination, ip + 16);
	}
	l4[0] = 0x80;
	l4[2] = traffic->port >> 8;
	l4[3] = traffic->port;
	if (traffic->protocol == IPPROTO_TCP)
		put_tcp(l4, traffic);
	else
		l4[5] = l4_length;
}

/* `program` in a wrapper of its own; -1: only the harness. */
static struct wrapper *wrap(int program, const struct traffic *traffic)
{
	struct wrapper *wrapper = wrapper__open();
	uint32_t zero = 0;
	struct frame_at frame;

	build(&frame, traffic);
	assert_true(frame.length <= sizeof(wrapper->rodata->frame));
	memcpy((void *)wrapper->rodata->frame, frame.data, frame.length);
	wrapper->rodata->frame_length = frame.length;
	wrapper->rodata->source_at = frame.source;
	wrapper->rodata->ports_at = frame.ports;
	wrapper->rodata->flows_mask = traffic->flows - 1;
	wrapper->rodata->client_mask = traffic->new_flows ? 0xff3f : 0;
	wrapper->rodata->port_mask = htons(traffic->ports);
	wrapper->rodata->vips = traffic->vips;
	assert_int_equal(wrapper__load(wrapper), 0);
	if (program < 0)
		program = bpf_program__fd(wrapper->progs.oxp_nothing);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(wrapper->maps.target),
					     &zero, &program, BPF_ANY),
			 0);
	return wrapper;
}

static int by_value(const void *left, const void *right)
{
	return *(const int *)left - *(const int *)right;
}

/* The batches of all runs of a program in one measurement. */
struct batches {
	int took[RUNS_MAX * BATCHES_MAX], count;
};

static void add_batches(struct batches *batches, const struct wrapper *wrapper)
{
	int count = (int)wrapper->bss->batches - 1;

	if (count > BATCHES_MAX)
		count = BATCHES_MAX;
	if (count <= 0)
		return;
	memcpy(batches->took + batches->count, wrapper->bss->took,
	       count * sizeof(*batches->took));
	batches->count += count;
}

/* Returns ns per packet. */
static double undisturbed_cost(struct batches *batches)
{
	assert_in_range(batches->count, 100, RUNS_MAX * BATCHES_MAX);
	qsort(batches->took, batches->count, sizeof(*batches->took), by_value);
	return (double)batches->took[batches->count / 100] / BATCH;
}

static int run_wrapper(struct wrapper *wrapper, uint32_t packets, int action)
{
	unsigned char frame[128];
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame,
		    .data_size_in = wrapper->rodata->frame_length,
		    .repeat = packets);

	memcpy(frame, (void *)wrapper->rodata->frame, sizeof(frame));
	wrapper->bss->packets = wrapper->bss->batches = 0;
	assert_int_equal(
		bpf_prog_test_run_opts(
			bpf_program__fd(wrapper->progs.oxp_wrapper), &options),
		0);
	assert_int_equal(options.retval, action);
	return options.duration;
}

static void run_once(int program, struct traffic traffic, uint8_t flags,
		     uint32_t packets)
{
	struct wrapper *wrapper;

	traffic.tcp_flags = flags;
	wrapper = wrap(program, &traffic);
	run_wrapper(wrapper, packets, traffic.action);
	wrapper__destroy(wrapper);
}

static struct cost sorted_cost(int *values, int count)
{
	qsort(values, count, sizeof(*values), by_value);
	return (struct cost){values[0], values[count / 2]};
}

struct result measure(int program, const struct traffic *traffic)
{
	struct traffic spoofed = *traffic;
	struct wrapper *harness, *floor, *own, *flood;
	static int before[RUNS_MAX], cost[2][RUNS_MAX], noise[RUNS_MAX];
	static struct batches batches[3]; /* harness, floor, program */
	struct floor *object = floor__open_and_load();
	int least = INT32_MAX, quiet = 0, runs = 0;
	int most = quiet_runs_wanted * RUNS_FOR_QUIET;
	struct result result = {};

	memset(batches, 0, sizeof(batches));
	assert_non_null(object);
	assert_in_range(quiet_runs_wanted, 1, QUIET_RUNS_MAX);
	spoofed.flows = 1 << 24;
	spoofed.new_flows = true;
	spoofed.tcp_flags = SYN;
	harness = wrap(-1, traffic);
	floor = wrap(bpf_program__fd(traffic->reads_a_line
					     ? object->progs.oxp_floor_line
					     : object->progs.oxp_floor),
		     traffic);
	own = wrap(program, traffic);
	flood = wrap(program, &spoofed);
	if (traffic->sets_up_flows) {
		/* Flows are random, so send enough to cover all: packets of
		 * unknown ones would be answered by a reset. */
		run_once(program, *traffic, SYN, 16 * traffic->flows);
		run_once(program, *traffic, ACK, 16 * traffic->flows);
	}
	for (; runs < most && quiet < quiet_runs_wanted; runs++) {
		int after;

		if (traffic->flood_before)
			run_wrapper(flood, PACKETS, XDP_TX);
		before[runs] = run_wrapper(harness, PACKETS, XDP_TX);
		add_batches(&batches[0], harness);
		cost[0][runs] = run_wrapper(floor, PACKETS, XDP_TX);
		add_batches(&batches[1], floor);
		cost[1][runs] = run_wrapper(own, PACKETS, traffic->action);
		add_batches(&batches[2], own);
		after = run_wrapper(harness, PACKETS, XDP_TX);
		noise[runs] = after > before[runs] ? after : before[runs];
		if (noise[runs] < least)
			least = noise[runs];
		quiet = 0;
		for (int i = 0; i <= runs; i++)
			quiet += noise[i] * 100 <= least * (100 + TOLERANCE);
	}
	quiet = 0;
	for (int i = 0; i < runs; i++) {
		if (noise[i] * 100 > least * (100 + TOLERANCE))
			continue;
		cost[0][quiet] = cost[0][i] - before[i];
		cost[1][quiet++] = cost[1][i] - before[i];
	}
	result.floor = sorted_cost(cost[0], quiet);
	result.program = sorted_cost(cost[1], quiet);
	result.quiet_runs = quiet;
	result.undisturbed =
		undisturbed_cost(&batches[2]) - undisturbed_cost(&batches[0]);
	result.undisturbed_floor =
		undisturbed_cost(&batches[1]) - undisturbed_cost(&batches[0]);
	wrapper__destroy(harness);
	wrapper__destroy(floor);
	wrapper__destroy(own);
	wrapper__destroy(flood);
	floor__destroy(object);
	return result;
}
