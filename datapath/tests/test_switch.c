// SPDX-License-Identifier: Apache-2.0
/* Packets while tables are switched and services come and go. */
#include <linux/bpf.h>
#include <netinet/in.h>
#include <unistd.h>

#include "harness.h"
#include "load/load.h"
#include "slow.skel.h"

/* Packets while a service alternates between two sets of members, table sizes
 * and encapsulations: each must go as one of the two sets says, completely. */
#define FLOWS 256

static const struct alternative {
	struct oxp_service_settings settings;
	uint32_t members;
	uint8_t protocol; /* of the outer header */
} alternatives[2] = {
	{{.slots = TEST_SLOTS, .encapsulation = OXP_IPIP}, 20, IPPROTO_IPIP},
	{{.slots = 251, .encapsulation = OXP_GUE}, 7, IPPROTO_UDP},
};

struct reader {
	int program;
	struct frame frame[FLOWS];
	uint32_t allowed[2][FLOWS];
	uint64_t packets, seen[2], mixtures;
	bool stop;
};

static bool is_of(const struct reader *reader, int which, int flow,
		  uint32_t member, uint8_t protocol)
{
	return member == reader->allowed[which][flow] &&
	       protocol == alternatives[which].protocol;
}

static void *read_packets(void *argument)
{
	struct reader *reader = argument;
	struct frame out;

	for (int i = 0; !__atomic_load_n(&reader->stop, __ATOMIC_RELAXED);
	     i = (i + 1) % FLOWS) {
		uint32_t member;

		if (run(reader->program, &reader->frame[i], &out) != XDP_TX) {
			reader->mixtures++;
			continue;
		}
		memcpy(&member, out.data + 14 + 16, sizeof(member));
		reader->packets++;
		if (is_of(reader, 0, i, member, out.data[14 + 9]))
			reader->seen[0]++;
		else if (is_of(reader, 1, i, member, out.data[14 + 9]))
			reader->seen[1]++;
		else
			reader->mixtures++;
	}
	return NULL;
}

static void learn(struct oxp_node *node, const struct oxp_key *key,
		  uint32_t *allowed)
{
	struct oxp_address client = address(CLIENT), member;

	for (int i = 0; i < FLOWS; i++) {
		assert_ok(oxp_test_pick(node, key, &client, 1024 + i, &member,
					error));
		memcpy(&allowed[i], member.bytes + 12, 4);
	}
}

static void set_alternative(struct oxp_node *node, const struct oxp_key *key,
			    struct oxp_member sets[2][20], int which)
{
	set_service_as(node, key, &alternatives[which].settings, sets[which],
		       alternatives[which].members);
}

static void prepare(struct oxp_node *node, struct reader *reader,
		    const struct oxp_key *key, struct oxp_member sets[2][20])
{
	memset(reader, 0, sizeof(*reader));
	/* sizes and positions differ, so that a mixture is detected */
	make_members(sets[0], 20, 1, 0);
	make_members(sets[1], 20, 2, 0);
	for (int which = 0; which < 2; which++) {
		set_alternative(node, key, sets, which);
		learn(node, key, reader->allowed[which]);
	}
	for (int i = 0; i < FLOWS; i++) {
		struct flow flow = {CLIENT, VIP, 1024 + i, 80, IPPROTO_TCP};

		make_frame(&reader->frame[i], &flow, 10, NULL);
	}
	reader->program = forward_program(node);
}

PLAIN_TEST(test_packets_never_see_a_mixture_of_tables)
{
	struct oxp_node *node = fresh_state();
	struct oxp_key key = tcp_key(VIP, 80);
	struct oxp_member sets[2][20];
	static struct reader reader;
	pthread_t thread;

	prepare(node, &reader, &key, sets);
	pthread_create(&thread, NULL, read_packets, &reader);
	for (int i = 0; i < 300; i++)
		set_alternative(node, &key, sets, i & 1);
	reader.stop = true;
	pthread_join(thread, NULL);
	print_message("%llu packets, %llu by one and %llu by the other table\n",
		      (unsigned long long)reader.packets,
		      (unsigned long long)reader.seen[0],
		      (unsigned long long)reader.seen[1]);
	assert_int_equal(reader.mixtures, 0);
	assert_true(reader.seen[0] && reader.seen[1]);
	close(reader.program);
	oxp_close(node);
}

/* Proof that the reader would notice: the same with tables written in place. */
PLAIN_TEST(test_tables_written_in_place_show_mixtures)
{
	struct oxp_node *node = fresh_state();
	struct oxp_key key = tcp_key(VIP, 80);
	struct service_block *block, *copy[2];
	struct oxp_member sets[2][20];
	static struct reader reader;
	pthread_t thread;
	size_t size;
	int rounds;

	prepare(node, &reader, &key, sets);
	for (int which = 0; which < 2; which++) {
		set_alternative(node, &key, sets, which);
		block = live_block(node, 0);
		size = lines_of_block(block->slots, block->members, 0, false) *
		       LINE_SIZE;
		copy[which] = malloc(size);
		memcpy(copy[which], block, size);
	}
	pthread_create(&thread, NULL, read_packets, &reader);
	for (rounds = 0; rounds < 10000000; rounds++) {
		memcpy(block, copy[rounds & 1], size);
		if (__atomic_load_n(&reader.mixtures, __ATOMIC_RELAXED))
			break;
	}
	reader.stop = true;
	pthread_join(thread, NULL);
	assert_true(reader.mixtures > 0);
	for (int which = 0; which < 2; which++)
		free(copy[which]);
	close(reader.program);
	oxp_close(node);
}

/* Packets that take longer than an update: their block must stay. */
struct slow_reader {
	int program;
	uint64_t packets, disturbed;
	bool stop;
};

static void *read_slowly(void *argument)
{
	struct slow_reader *reader = argument;
	struct frame frame = {.length = 64};

	while (!__atomic_load_n(&reader->stop, __ATOMIC_RELAXED)) {
		reader->packets++;
		if (run(reader->program, &frame, NULL) != XDP_PASS)
			reader->disturbed++;
	}
	return NULL;
}

static uint64_t disturbed_packets(bool wait)
{
	struct oxp_node *node = fresh_state();
	struct oxp_key key = tcp_key(VIP, 80);
	struct slow_reader reader = {};
	struct slow *object = slow__open();
	struct oxp_member sets[2][5];
	pthread_t thread;

	for (int i = 0; i < MAPS; i++) {
		struct bpf_map *map = find_map(object->obj, map_names[i]);

		if (map)
			bpf_map__reuse_fd(map, node->map[i]);
	}
	make_members(sets[0], 5, 1, 0);
	make_members(sets[1], 5, 2, 0);
	set_service(node, &key, sets[1], 5);
	object->rodata->bucket = entry_of(node, 0)->place / BUCKET_WAYS;
	object->rodata->way = entry_of(node, 0)->place % BUCKET_WAYS;
	assert_int_equal(slow__load(object), 0);
	reader.program = bpf_program__fd(object->progs.oxp_slow);
	wait_for_packets = wait;
	pthread_create(&thread, NULL, read_slowly, &reader);
	/* without waiting, until it happened, however long that takes */
	for (int i = 0; i < (wait ? 100 : 100000); i++) {
		set_service(node, &key, sets[i & 1], 5);
		usleep(500);
		if (!wait &&
		    __atomic_load_n(&reader.disturbed, __ATOMIC_RELAXED))
			break;
	}
	reader.stop = true;
	pthread_join(thread, NULL);
	wait_for_packets = true;
	print_message("%llu of %llu slow packets lost their block\n",
		      (unsigned long long)reader.disturbed,
		      (unsigned long long)reader.packets);
	slow__destroy(object);
	oxp_close(node);
	return reader.disturbed;
}

PLAIN_TEST(test_blocks_wait_for_packets)
{
	assert_int_equal(disturbed_packets(true), 0);
	/* the test would notice */
	assert_true(disturbed_packets(false) > 0);
}

/* A packet that finds the service while it is deleted and others are created is
 * for this service or for none. */
static void *read_own(void *argument)
{
	struct reader *reader = argument;
	struct frame out;

	while (!__atomic_load_n(&reader->stop, __ATOMIC_RELAXED)) {
		int action = run(reader->program, &reader->frame[0], &out);

		reader->packets++;
		if (action == XDP_TX)
			reader->mixtures += out.data[14 + 18] != 1;
		else
			reader->mixtures += action != XDP_PASS;
	}
	return NULL;
}

PLAIN_TEST(test_indices_are_not_reused_while_packets_use_them)
{
	struct flow flow = {CLIENT, VIP, 40000, 80, IPPROTO_TCP};
	struct oxp_key keys[2] = {tcp_key(VIP, 80), tcp_key(VIP, 81)};
	struct oxp_node *node = fresh_state();
	struct oxp_member sets[2][5];
	static struct reader reader;
	pthread_t thread;

	make_members(sets[0], 5, 1, 0);
	make_members(sets[1], 5, 2, 0);
	make_frame(&reader.frame[0], &flow, 10, NULL);
	reader.program = forward_program(node);
	pthread_create(&thread, NULL, read_own, &reader);
	for (int i = 0; i < 200; i++) {
		set_service(node, &keys[i & 1], sets[i & 1], 5);
		assert_int_equal(
			oxp_services_delete(node, &keys[i & 1], 1, error), 1);
		node->entry_cursor = 0; /* reuse the same entry */
	}
	reader.stop = true;
	pthread_join(thread, NULL);
	assert_int_equal(reader.mixtures, 0);
	close(reader.program);
	oxp_close(node);
}

RUN_TESTS(enter_namespace, NULL)
