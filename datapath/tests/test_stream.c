// SPDX-License-Identifier: Apache-2.0
/* How a reader treats streams of other versions, and damaged ones. */
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

static int memory_file(const void *data, size_t length)
{
	int fd = memfd_create("stream", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, length), length);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static int read_bytes(const void *data, size_t length, struct import **out)
{
	int fd = memory_file(data, length);
	int status = read_stream(fd, out, error);

	close(fd);
	return status;
}

/* Returns the stream of a node with services, allocated. */
static char *stream_of(struct oxp_node *node, size_t *length)
{
	int fd = memory_file("", 0);
	char *data;

	assert_ok(oxp_export(node, fd, error));
	*length = lseek(fd, 0, SEEK_END);
	data = malloc(*length);
	assert_int_equal(pread(fd, data, *length, 0), *length);
	close(fd);
	return data;
}

static struct oxp_node *some_state(void)
{
	struct oxp_node *node = fresh_state();
	struct oxp_key http = tcp_key(VIP, 80), dns = udp_key(VIP_V6, 53);
	struct oxp_member members[20];

	make_members(members, 20, 0, 1);
	set_service(node, &http, members, 20);
	set_service(node, &dns, members, 3);
	return node;
}

/* Returns a stream with an additional record before the last one. */
static char *with_record(const char *stream, size_t *length, uint32_t flags)
{
	const size_t end =
		sizeof(struct stream_record) + sizeof(struct stream_end);
	struct stream_record more = {
		.name = "of the future",
		.flags = flags,
		.element = 3,
		.count = 5,
	};
	const size_t added = sizeof(more) + 15;
	char *out = calloc(1, *length + added);
	struct stream_end last;

	memcpy(out, stream, *length - end);
	memcpy(out + *length - end, &more, sizeof(more));
	memcpy(out + *length + added - end, stream + *length - end, end);
	*length += added;
	memcpy(&last, out + *length - sizeof(last), sizeof(last));
	last.records++;
	memcpy(out + *length - sizeof(last), &last, sizeof(last));
	return out;
}

PLAIN_TEST(test_unknown_records_are_skipped_unless_mandatory)
{
	struct oxp_node *node = some_state();
	struct import *import;
	size_t length, optional_length, mandatory_length;
	char *stream = stream_of(node, &length), *optional, *mandatory;

	optional_length = mandatory_length = length;
	optional = with_record(stream, &optional_length, 0);
	mandatory = with_record(stream, &mandatory_length, STREAM_MANDATORY);
	assert_int_equal(read_bytes(optional, optional_length, &import), 0);
	free_import(import);
	assert_int_equal(read_bytes(mandatory, mandatory_length, &import),
			 -EPROTONOSUPPORT);
	assert_non_null(strstr(error, "\"of the future\""));
	free(stream);
	free(optional);
	free(mandatory);
	oxp_close(node);
}

PLAIN_TEST(test_streams_cut_short_are_refused)
{
	struct oxp_node *node = some_state();
	struct import *import;
	size_t length;
	char *stream = stream_of(node, &length);

	for (size_t part = 0; part < length; part += part < 2000 ? 1 : 97) {
		int status = read_bytes(stream, part, &import);

		assert_true(status == -EBADMSG || status == -EPROTO);
	}
	assert_int_equal(read_bytes(stream, length, &import), 0);
	free_import(import);
	stream[10]++; /* next release in the magic */
	assert_int_equal(read_bytes(stream, length, &import), -EPROTO);
	assert_non_null(strstr(error, "recreates the tables"));
	free(stream);
	oxp_close(node);
}

/* Elements that grew, and elements of older writers. */
PLAIN_TEST(test_elements_of_other_lengths_are_cut_or_padded)
{
	const char data[] = "abcdefgh";
	struct record record = {
		.head = {.element = 4, .count = 2},
		.data = data,
	};
	char out[8];

	element_of(&record, 1, out, 2);
	assert_memory_equal(out, "ef", 2);
	element_of(&record, 1, out, 8);
	assert_memory_equal(out, "efgh\0\0\0\0", 8);
	element_of(&record, 2, out, 8);
	assert_memory_equal(out, "\0\0\0\0\0\0\0\0", 8);
}

/* Any bytes give an error or a state, but never a crash or a torn table. */
PLAIN_TEST(test_damaged_streams_never_crash_the_reader)
{
	struct oxp_node *node = some_state();
	size_t length;
	char *stream = stream_of(node, &length);
	uint32_t refused = 0, read = 0;

	srandom(1);
	for (int round = 0; round < 3000; round++) {
		size_t at = random() % length;
		struct node_config config;
		struct import *import;
		char was = stream[at];

		stream[at] ^= 1 << random() % 8;
		if (read_bytes(stream, length, &import)) {
			refused++;
		} else {
			imported_sizes(import, &config, error);
			free_import(import);
			read++;
		}
		stream[at] = was;
	}
	assert_true(refused > 0 && read > 0);
	free(stream);
	oxp_close(node);
}

/* After a death in between, the next process finds the node as it was. */
PLAIN_TEST(test_handover_completes_or_is_reverted)
{
	struct oxp_node *node = some_state(), *other = open_state();
	struct oxp_info info;
	int lock_file;

	assert_int_equal(oxp_handover_end(node, 0, error), -EINVAL);
	assert_ok(oxp_handover_begin(node, &lock_file, error));
	assert_true(node->config->dirty);
	assert_ok(oxp_handover_end(node, 0, error));
	assert_false(node->config->dirty);
	assert_ok(oxp_info_get(other, &info, error));
	assert_int_equal(info.services, 2);
	assert_ok(oxp_handover_begin(node, &lock_file, error));
	assert_ok(oxp_handover_end(node, 1, error));
	assert_int_equal(oxp_info_get(other, &info, error), -ESTALE);
	/* for the tests that follow: the pins were not changed */
	node->config->layout = OXP_LAYOUT;
	oxp_close(other);
	oxp_close(node);
}

/* Flows of set 0, in the format of the map. */
static struct flow_set *map_flows(struct oxp_node *node)
{
	void *memory =
		mmap(NULL, sizeof(struct flow_set), PROT_READ | PROT_WRITE,
		     MAP_SHARED, node->map[MAP_FLOWS], 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

static uint64_t flow_entry(uint64_t tag, uint32_t age, uint32_t member)
{
	uint64_t now = coarse_time() >> 30;

	return tag << FLOW_SHARE_SHIFT |
	       ((now - age) & FLOW_TIME_MASK) << FLOW_TIME_SHIFT | member;
}

/* Import only this part, and check that it has no other records. */
static struct import *import_part(struct oxp_node *node, enum oxp_part part)
{
	struct import *import;
	int fd = memory_file("", 0);

	assert_ok(oxp_export_part(node, fd, part, error));
	assert_ok(read_stream(fd, &import, error));
	close(fd);
	assert_null(find_record(import, RECORD_SLOTS));
	assert_int_equal(!find_record(import, RECORD_FLOWS),
			 part != OXP_PART_FLOWS);
	assert_int_equal(!find_record(import, RECORD_SERVICE),
			 part != OXP_PART_COUNTERS);
	return import;
}

static uint32_t member_of(const struct flow_set *set, uint64_t tag)
{
	uint32_t found = OXP_NO_MEMBER;

	for (int way = 0; way < FLOW_SET_WAYS; way++)
		if (set->entry[way] >> FLOW_SHARE_SHIFT == tag) {
			assert_int_equal(found, OXP_NO_MEMBER);
			found = set->entry[way] & FLOW_MEMBER;
		}
	return found;
}

/* A second copy adds what the first one could not have, and keeps what packets
 * wrote. */
PLAIN_TEST(test_second_copy_of_flows_keeps_what_packets_wrote)
{
	struct oxp_node *node = some_state();
	struct flow_set *set = map_flows(node);
	struct import *import;

	for (uint32_t i = 0; i < FLOW_SET_WAYS; i++)
		set->entry[i] = flow_entry(i + 1, 2, i + 1);
	import = import_part(node, OXP_PART_FLOWS);

	/* an older connection with the same ports; a newer one; the same one;
	 * and one whose only place is an old one's */
	memset(set, 0, sizeof(*set));
	set->entry[3] = flow_entry(1, 500, 11);
	set->entry[4] = flow_entry(2, 0, 12);
	for (uint32_t i = 3; i < FLOW_SET_WAYS; i++)
		set->entry[(i + 2) % FLOW_SET_WAYS] = flow_entry(i, 2, i);
	set->entry[2] = flow_entry(99, 400, 99);
	assert_ok(fill_flows(node, import, error));
	assert_int_equal(member_of(set, 1), 1);
	assert_int_equal(member_of(set, 2), 12);
	for (uint32_t i = 3; i <= FLOW_SET_WAYS; i++)
		assert_int_equal(member_of(set, i), i);
	assert_int_equal(member_of(set, 99), OXP_NO_MEMBER);

	/* a full set of newer ones stays unchanged */
	for (uint32_t i = 0; i < FLOW_SET_WAYS; i++)
		set->entry[i] = flow_entry(100 + i, 0, i);
	assert_ok(fill_flows(node, import, error));
	for (uint32_t i = 0; i < FLOW_SET_WAYS; i++)
		assert_int_equal(member_of(set, 100 + i), i);
	free_import(import);
	free_import(import_part(node, OXP_PART_COUNTERS));
	munmap(set, sizeof(*set));
	oxp_close(node);
}

/* A file during whose writing packets open flows. */
struct busy_file {
	struct oxp_node *node;
	char data[4096];
	size_t length;
};

static ssize_t open_flows_and_write(void *cookie, const char *data,
				    size_t length)
{
	struct busy_file *file = cookie;
	struct flow_set *set = map_flows(file->node);

	for (uint32_t i = 0; i < FLOW_SET_WAYS; i++)
		set->entry[i] = flow_entry(1000 + i, 0, i);
	munmap(set, sizeof(*set));
	assert_true(file->length + length <= sizeof(file->data));
	memcpy(file->data + file->length, data, length);
	file->length += length;
	return length;
}

/* Flows that begin during the export take no room of others. */
PLAIN_TEST(test_flows_that_begin_meanwhile_displace_none)
{
	static const cookie_io_functions_t functions = {
		.write = open_flows_and_write};
	struct busy_file file = {.node = some_state()};
	uint32_t last = file.node->config->flows_max / FLOW_SET_WAYS - 1;
	size_t length = (last + 1) * sizeof(struct flow_set);
	struct writer writer = {.node = file.node};
	const struct stream_record *record = (void *)file.data;
	const struct stream_flow *flow = (void *)(record + 1);
	struct flow_set *sets;

	sets = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED,
		    file.node->map[MAP_FLOWS], 0);
	assert_true(sets != MAP_FAILED);
	sets[last].entry[3] = flow_entry(77, 5, 9);
	writer.file = fopencookie(&file, "w", functions);
	assert_non_null(writer.file);
	assert_int_equal(setvbuf(writer.file, NULL, _IONBF, 0), 0);
	write_flows(&writer);
	assert_int_equal(fclose(writer.file), 0);

	assert_int_equal(writer.status, 0);
	assert_int_equal(sets[0].entry[1] >> FLOW_SHARE_SHIFT, 1001);
	assert_int_equal(file.length, sizeof(*record) + sizeof(*flow));
	assert_int_equal(record->count, 1);
	assert_int_equal(flow->name >> FLOW_SHARE_SHIFT, 77);
	assert_int_equal(flow->member, 9);
	assert_in_range(flow->age, 5, 6);
	munmap(sets, length);
	oxp_close(file.node);
}

static struct oxp_outcome_counters martians(struct oxp_node *node)
{
	struct oxp_outcome_counters all[OXP_OUTCOMES];

	assert_int_equal(oxp_outcomes_list(node, all, OXP_OUTCOMES, error),
			 OXP_OUTCOMES);
	return all[OXP_DROP_MARTIAN];
}

/* Add a stream's counters to the node's: only those of this map, as all others
 * count as adopted. */
static void add_counters_of(struct oxp_node *node, const struct import *import,
			    enum map map)
{
	int adopted[MAPS] = {};

	adopted[map] = -1;
	assert_ok(fill_counters(node, import, adopted, error));
}

static uint64_t flows_without_a_place(struct oxp_node *node, uint32_t *index)
{
	const struct oxp_key http = tcp_key(VIP, 80);
	struct oxp_service service;

	assert_ok(oxp_service_get(node, &http, &service, error));
	*index = service.index;
	return service.flow_table_full;
}

PLAIN_TEST(test_flows_without_a_place_are_added_to_their_service)
{
	struct oxp_node *node = some_state();
	uint32_t part = part_of_slice(node->config->services_max), index;
	struct import *import;

	assert_int_equal(flows_without_a_place(node, &index), 0);
	node->service_counters[2 * part + index].rare.flow_table_full = 5;
	import = import_part(node, OXP_PART_COUNTERS);
	add_counters_of(node, import, MAP_SERVICE_COUNTERS);
	assert_int_equal(flows_without_a_place(node, &index), 10);
	free_import(import);
	oxp_close(node);
}

PLAIN_TEST(test_outcomes_are_added)
{
	const struct flow flow = {"127.0.0.1", VIP, 40000, 80, IPPROTO_TCP};
	struct oxp_node *node = some_state();
	struct oxp_outcome_counters counters;
	int program = forward_program(node);
	struct import *import;
	struct frame frame;

	make_frame(&frame, &flow, 10, NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(run(program, &frame, NULL), XDP_DROP);
	close(program);
	import = import_part(node, OXP_PART_COUNTERS);
	add_counters_of(node, import, MAP_OUTCOMES);
	counters = martians(node);
	assert_int_equal(counters.packets, 6);
	assert_int_equal(counters.bytes, 6 * frame.length);
	free_import(import);
	oxp_close(node);
}

RUN_TESTS(enter_namespace, NULL)
