// SPDX-License-Identifier: Apache-2.0
/*
 * Counts packets on interfaces, with native XDP where possible. Reports
 * "attached", then executes commands:
 *
 *   expect PATH   count the streams of that file from zero
 *   count         report what has been received
 *   write PATH    write all results to a file
 *
 * For new streams, programs are replaced without detaching them, or interfaces
 * would lose packets, and some their link.
 */
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/if_link.h>

#include "format.h"
#include "process.h"
#include "receive_state.h"

#include "receive.skel.h"

static struct {
	unsigned int count;
	int links[INTERFACES_MAX];
	const char *names[INTERFACES_MAX];
	bool generic;
} attached;

static struct receive *programs;
static uint64_t *numbers;
static size_t numbers_length;

static void unmap(void)
{
	if (numbers)
		munmap(numbers, numbers_length);
	numbers = NULL;
}

/* Assigns each stream its part of the maps. */
static void place_streams(struct receive *next,
			  const struct expected_stream *streams, uint32_t count)
{
	uint64_t words = 0, flows = 0, destinations = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct stream_state state = {streams[i], words, flows,
					     destinations, 1};
		uint32_t index = streams[i].id % STREAMS_MAX;

		if (next->rodata->streams[index].present)
			fail("two streams with the identifier %u", index);
		memcpy((void *)&next->rodata->streams[index], &state,
		       sizeof(state));
		words += (streams[i].packets + 63ULL) / 64;
		flows += streams[i].flows;
		destinations += streams[i].destinations;
	}
	set_entries(next->maps.numbers, words);
	set_entries(next->maps.latest, flows);
	set_entries(next->maps.received, destinations);
	set_entries(next->maps.latencies, STREAMS_MAX * LATENCY_BUCKETS);
}

static void map_numbers(void)
{
	size_t page = sysconf(_SC_PAGESIZE);

	numbers_length =
		bpf_map__max_entries(programs->maps.numbers) * sizeof(*numbers);
	numbers_length = (numbers_length + page - 1) / page * page;
	numbers = mmap(NULL, numbers_length, PROT_READ, MAP_SHARED,
		       bpf_map__fd(programs->maps.numbers), 0);
	if (numbers == MAP_FAILED)
		fail("bits of packets: %s", strerror(errno));
}

static void attach(const char *name)
{
	int program = bpf_program__fd(programs->progs.receive);
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = XDP_FLAGS_DRV_MODE);
	unsigned int ifindex = if_nametoindex(name);
	int link;

	if (!ifindex)
		fail("%s: %s", name, strerror(errno));
	if (attached.count == INTERFACES_MAX)
		fail("more than %d interfaces", INTERFACES_MAX);
	link = bpf_link_create(program, ifindex, BPF_XDP, &options);
	if (link == -EOPNOTSUPP) {
		options.flags = XDP_FLAGS_SKB_MODE;
		attached.generic = true;
		link = bpf_link_create(program, ifindex, BPF_XDP, &options);
	}
	if (link < 0)
		fail("%s: cannot attach: %s%s", name, strerror(-link),
		     link == -EBUSY || link == -EEXIST
			     ? "; it has another XDP program, which has to be "
			       "detached"
			     : "");
	attached.names[attached.count] = name;
	attached.links[attached.count++] = link;
}

static void replace(struct receive *next)
{
	int program = bpf_program__fd(next->progs.receive);

	for (unsigned int i = 0; i < attached.count; i++)
		load_or_fail(bpf_link_update(attached.links[i], program, NULL),
			     "replacing the program");
	unmap();
	receive__destroy(programs);
	programs = next;
	map_numbers();
}

/* Reads their present addresses: those of a bond may have changed. */
static void note_interfaces(struct receive *next)
{
	int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (any < 0)
		fail("a socket: %s", strerror(errno));
	for (unsigned int i = 0; i < attached.count; i++) {
		struct own_interface own = {};
		struct ifreq request = {};

		snprintf(request.ifr_name, sizeof(request.ifr_name), "%s",
			 attached.names[i]);
		if (ioctl(any, SIOCGIFHWADDR, &request))
			fail("%s: its address: %s", attached.names[i],
			     strerror(errno));
		own.ifindex = if_nametoindex(attached.names[i]);
		memcpy(own.mac, request.ifr_hwaddr.sa_data, sizeof(own.mac));
		memcpy((void *)&next->rodata->interfaces[i], &own, sizeof(own));
	}
	close(any);
	*(uint32_t *)&next->rodata->interface_count = attached.count;
}

static struct receive *load(const struct expected_stream *streams,
			    uint32_t count)
{
	struct receive *next = receive__open();

	load_or_fail(next ? 0 : -errno, "the receiving program");
	place_streams(next, streams, count);
	note_interfaces(next);
	load_or_fail(receive__load(next), "the receiving program");
	return next;
}

static void expect(const char *path)
{
	struct content content = read_file(path);
	const struct receive_file *head = take(&content, sizeof(*head));
	const struct expected_stream *streams;

	if (head->version != FORMAT_VERSION || head->streams > STREAMS_MAX)
		fail("%s: not streams of version %d", path, FORMAT_VERSION);
	streams = take(&content, head->streams * sizeof(*streams));
	replace(load(streams, head->streams));
	report_clock("expecting");
}

/* Returns the values of all processors; valid until the next call. */
static void *each_of(struct bpf_map *map, uint32_t key)
{
	static struct stream_counters *values; /* the longest values */

	if (!values)
		values = calloc(possible_cpus(), sizeof(*values));
	if (!values)
		fail("no memory");
	if (bpf_map_lookup_elem(bpf_map__fd(map), &key, values))
		fail("%s: %s", bpf_map__name(map), strerror(errno));
	return values;
}

static uint64_t sum(struct bpf_map *map, uint32_t key)
{
	uint64_t *values = each_of(map, key), total = 0;

	for (int cpu = 0; cpu < possible_cpus(); cpu++)
		total += values[cpu];
	return total;
}

static struct stream_counters counters_of(uint32_t index)
{
	struct stream_counters *values =
		each_of(programs->maps.counters, index);
	struct stream_counters total = {};

	for (int cpu = 0; cpu < possible_cpus(); cpu++) {
		total.received += values[cpu].received;
		total.duplicates += values[cpu].duplicates;
		total.reordered += values[cpu].reordered;
		total.opened += values[cpu].opened;
		total.invalid += values[cpu].invalid;
		total.early += values[cpu].early;
		if (values[cpu].latency_max > total.latency_max)
			total.latency_max = values[cpu].latency_max;
	}
	return total;
}

static void count(void)
{
	uint64_t received = 0, duplicates = 0, opened = 0;

	for (uint32_t i = 0; i < STREAMS_MAX; i++) {
		struct stream_counters counters = counters_of(i);

		received += counters.received;
		duplicates += counters.duplicates;
		opened += counters.opened;
	}
	report("{\"received\": %" PRIu64 ", \"duplicates\": %" PRIu64
	       ", \"opened\": %" PRIu64 "}",
	       received, duplicates, opened);
}

static void write_sums(FILE *file, struct bpf_map *map, uint32_t first,
		       uint32_t length)
{
	for (uint32_t i = 0; i < length; i++) {
		uint64_t value = sum(map, first + i);

		write_all(file, &value, sizeof(value));
	}
}

static void write_stream(FILE *file, uint32_t index)
{
	const struct stream_state *stream = &programs->rodata->streams[index];
	uint64_t words = (stream->expected.packets + 63ULL) / 64;
	struct stream_result result = {
		.counters = counters_of(index),
		.id = stream->expected.id,
		.destinations = stream->expected.destinations,
	};

	while (words && !numbers[stream->words + words - 1])
		words--;
	result.words = words;
	write_all(file, &result, sizeof(result));
	write_sums(file, programs->maps.received, stream->destinations,
		   result.destinations);
	write_sums(file, programs->maps.latencies, index * LATENCY_BUCKETS,
		   LATENCY_BUCKETS);
	write_all(file, numbers + stream->words, words * sizeof(*numbers));
}

static void write_result(const char *path)
{
	struct result_file head = {.version = FORMAT_VERSION};
	FILE *file = fopen(path, "we");

	if (!file)
		fail("%s: %s", path, strerror(errno));
	for (uint32_t i = 0; i < FOREIGN_KINDS; i++)
		head.foreign[i] = sum(programs->maps.foreign, i);
	for (uint32_t i = 0; i < STREAMS_MAX; i++)
		head.streams += programs->rodata->streams[i].present;
	write_all(file, &head, sizeof(head));
	for (uint32_t i = 0; i < STREAMS_MAX; i++)
		if (programs->rodata->streams[i].present)
			write_stream(file, i);
	if (fclose(file))
		fail("%s: %s", path, strerror(errno));
	report_clock("written");
}

static void obey(const char *line)
{
	if (!strncmp(line, "expect ", 7))
		expect(line + 7);
	else if (!strcmp(line, "count"))
		count();
	else if (!strncmp(line, "write ", 6))
		write_result(line + 6);
	else
		fail("not a command: %s", line);
}

int receive_main(int count, char **interfaces)
{
	char line[4096];

	programs = load(NULL, 0);
	map_numbers();
	for (int i = 0; i < count; i++)
		attach(interfaces[i]);
	report("{\"attached\": %u, \"native\": %s}", attached.count,
	       attached.generic ? "false" : "true");
	while (read_line(line, sizeof(line), -1) == INPUT_LINE)
		obey(line);
	return 0;
}
