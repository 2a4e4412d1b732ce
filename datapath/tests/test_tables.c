// SPDX-License-Identifier: Apache-2.0
/* Tables of services with few and many members: number of slots, memory, and
 * flows while both change. */
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include "harness.h"

#define FLOWS 512

static struct oxp_member members[OXP_MEMBERS_MAX];

static void make_many(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		members[i] = (struct oxp_member){.address = address("10.4.0.0"),
						 .weight = 1,
						 .admin_up = 1};
		members[i].address.bytes[14] = i >> 8;
		members[i].address.bytes[15] = i;
	}
}

static struct oxp_node *open_for(uint32_t services, uint32_t all)
{
	return open_sized("tables",
			  (struct oxp_options){.services_max = services,
					       .members_max = all});
}

static void expect_sound(struct oxp_node *opened)
{
	assert_ok(oxp_test_verify(opened, error));
}

static void set_members(struct oxp_node *opened, const struct oxp_key *key,
			uint32_t count)
{
	if (oxp_service_set(opened, key, NULL, members, count, NULL, error))
		fail_msg("%u members: %s", count, error);
}

/* Get the member to which each flow's packet goes. */
static void send_flows(int program, uint8_t tcp_flags, uint32_t *out)
{
	struct variation with = {.tcp_flags = tcp_flags};
	struct flow flow = {.source = "20.0.0.1",
			    .destination = VIP,
			    .destination_port = 80,
			    .protocol = IPPROTO_TCP};
	struct frame frame, sent;

	for (uint32_t i = 0; i < FLOWS; i++) {
		flow.source_port = 1000 + i;
		make_frame(&frame, &flow, 0, &with);
		assert_int_equal(run(program, &frame, &sent), 3 /* XDP_TX */);
		memcpy(&out[i], sent.data + 30, sizeof(out[i]));
	}
}

static void expect_flows(int program, const uint32_t *wanted, const char *when)
{
	uint32_t found[FLOWS];

	send_flows(program, 0x10, found);
	for (uint32_t i = 0; i < FLOWS; i++)
		if (found[i] != wanted[i])
			fail_msg("flow %u went to another member %s", i, when);
}

static uint32_t slots_now(struct oxp_node *opened, const struct oxp_key *key)
{
	struct oxp_service service;

	assert_ok(oxp_service_get(opened, key, &service, error));
	return service.slots;
}

/* Sizes grow, shrink, and change again before slots have closed; elements
 * become wide and narrow again. Flows that began in between stay as well. */
PLAIN_TEST(test_flows_stay_while_the_number_of_slots_changes)
{
	static const uint32_t counts[] = {5, 12, 300, 40, 41, 5, 1000, 8};
	struct oxp_node *opened = open_for(4, 8192);
	struct oxp_key key = tcp_key(VIP, 80);
	uint32_t wanted[FLOWS], sizes = 0, slots = 0;
	int program = forward_program(opened);

	make_many(1000);
	set_members(opened, &key, counts[0]);
	send_flows(program, 0x02, wanted);
	expect_flows(program, wanted, "at first");
	for (size_t i = 1; i < sizeof(counts) / sizeof(counts[0]); i++) {
		set_members(opened, &key, counts[i]);
		sizes += slots_now(opened, &key) != slots;
		slots = slots_now(opened, &key);
		expect_sound(opened);
		expect_flows(program, wanted, "after a change");
	}
	assert_true(sizes > 4);
	close(program);
	remove_state(opened);
}

static void pass_idle_timeout(struct oxp_node *opened)
{
	assert_true(oxp_slots_age(opened, error) >= 0);
	for (int i = 0; i < 12; i++) {
		opened->config->ticked -= 350 * 1000 / 8 + 1000;
		assert_true(oxp_slots_age(opened, error) >= 0);
	}
}

PLAIN_TEST(test_slots_close_together_while_their_number_changes)
{
	struct oxp_node *opened = open_for(4, 64);
	struct oxp_key key = tcp_key(VIP, 80);
	struct oxp_service service;

	make_many(12);
	set_members(opened, &key, 5);
	set_members(opened, &key, 12);
	assert_ok(oxp_service_get(opened, &key, &service, error));
	assert_int_equal(service.slots, 4093);
	assert_true(service.open_slots > 0);
	pass_idle_timeout(opened);
	assert_ok(oxp_service_get(opened, &key, &service, error));
	assert_int_equal(service.open_slots, 0);
	remove_state(opened);
}

PLAIN_TEST(test_service_may_have_4096_members)
{
	struct oxp_node *opened = open_for(4, 8192);
	struct oxp_key key = tcp_key(VIP, 80);
	static struct oxp_member_state states[OXP_MEMBERS_MAX];
	uint32_t wanted[FLOWS], found[FLOWS], moved = 0;
	int program = forward_program(opened);

	make_many(OXP_MEMBERS_MAX);
	set_members(opened, &key, OXP_MEMBERS_MAX);
	expect_sound(opened);
	assert_int_equal(slots_now(opened, &key), 1048573);
	assert_int_equal(
		oxp_members_list(opened, &key, states, OXP_MEMBERS_MAX, error),
		OXP_MEMBERS_MAX);
	send_flows(program, 0x02, wanted);
	for (uint32_t i = 0; i < 64; i++)
		members[i].weight = 3;
	set_members(opened, &key, OXP_MEMBERS_MAX);
	expect_sound(opened);
	expect_flows(program, wanted, "after weights had changed");
	send_flows(program, 0x02, found);
	expect_flows(program, found, "after it began in an open slot");
	for (uint32_t i = 0; i < FLOWS; i++)
		moved += found[i] != wanted[i];
	assert_true(moved > 0);
	assert_int_equal(oxp_service_set(opened, &key, NULL, members,
					 OXP_MEMBERS_MAX + 1, NULL, error),
			 -E2BIG);
	close(program);
	remove_state(opened);
}

static uint64_t bytes_of(struct oxp_node *opened)
{
	struct oxp_info info;

	assert_ok(oxp_info_get(opened, &info, error));
	return info.map_bytes;
}

/* Freed memory is reused, by this process and by another one. */
PLAIN_TEST(test_memory_grows_with_use_and_is_used_again)
{
	struct oxp_node *opened = open_for(2048, 32768), *other;
	struct oxp_key keys[2048];
	uint64_t empty = bytes_of(opened), full;

	make_many(10);
	for (uint32_t i = 0; i < 2048; i++) {
		keys[i] = tcp_key(VIP, 1 + i);
		set_members(opened, &keys[i], 10);
	}
	expect_sound(opened);
	full = bytes_of(opened);
	assert_true(full > empty && full - empty <= 16 << 20);
	other = open_for(2048, 32768);
	for (int round = 0; round < 3; round++) {
		assert_int_equal(oxp_services_delete(other, keys, 1024, error),
				 1024);
		for (uint32_t i = 0; i < 1024; i++)
			set_members(round % 2 ? opened : other, &keys[i],
				    10 - round);
		expect_sound(opened);
	}
	assert_true(bytes_of(opened) - empty <= 24 << 20);
	oxp_close(other);
	remove_state(opened);
}

/* If the kernel has no more memory, the service is not created, or does not
 * change. */
PLAIN_TEST(test_services_without_memory_are_refused_whole)
{
	struct oxp_node *opened = open_for(16, 16384);
	struct oxp_key key = tcp_key(VIP, 80), big = tcp_key(VIP, 81),
		       more = tcp_key(VIP, 82);
	int tables = opened->map[MAP_TABLES];

	make_many(OXP_MEMBERS_MAX);
	set_members(opened, &key, 10);
	set_members(opened, &big, OXP_MEMBERS_MAX);
	opened->map[MAP_TABLES] = -1;
	assert_true(oxp_service_set(opened, &more, NULL, members,
				    OXP_MEMBERS_MAX, NULL, error) < 0);
	assert_non_null(strstr(error, "segment 1"));
	assert_true(oxp_service_set(opened, &key, NULL, members, 4000, NULL,
				    error) < 0);
	opened->map[MAP_TABLES] = tables;
	assert_int_equal(slots_now(opened, &key), 1021);
	expect_sound(opened);
	set_members(opened, &more, 4000);
	remove_state(opened);
}

/* Compare every member's share of slots with its share of weights. */
static void expect_even(uint32_t count, uint32_t slots)
{
	static uint16_t table[OXP_SLOTS_LIMIT], weights[OXP_MEMBERS_MAX];
	static struct oxp_address addresses[OXP_MEMBERS_MAX];
	uint32_t held[OXP_MEMBERS_MAX] = {}, sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		addresses[i] = members[i].address;
		weights[i] = members[i].weight;
		sum += weights[i];
	}
	assert_int_equal(
		oxp_test_maglev(addresses, weights, count, slots, table), 0);
	for (uint32_t i = 0; i < slots; i++)
		held[table[i]]++;
	for (uint32_t i = 0; i < count; i++) {
		double wanted = (double)slots * weights[i] / sum;
		double error_of =
			held[i] > wanted ? held[i] - wanted : wanted - held[i];

		if (error_of > wanted / 100)
			fail_msg("%u members: %u slots of %u instead of %.1f",
				 count, held[i], slots, wanted);
	}
}

PLAIN_TEST(test_shares_are_right_to_one_percent)
{
	static const uint32_t counts[] = {1,  2,  3,   7,   10,  11,  40,
					  41, 97, 163, 255, 256, 1000};
	static struct block_member wanted[OXP_MEMBERS_MAX];

	make_many(OXP_MEMBERS_MAX);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (uint32_t spread = 1; spread <= 3; spread++) {
			uint32_t slots;

			for (uint32_t j = 0; j < counts[i]; j++) {
				members[j].weight = 2 + j % spread;
				wanted[j].weight = members[j].weight;
			}
			slots = slot_count(wanted, counts[i], OXP_SLOTS_LIMIT);
			assert_true(is_prime(slots));
			expect_even(counts[i], slots);
		}
}

PLAIN_TEST(test_sizes_follow_members_and_weights)
{
	static struct block_member wanted[OXP_MEMBERS_MAX];

	for (uint32_t i = 0; i < OXP_MEMBERS_MAX; i++)
		wanted[i].weight = 1;
	assert_int_equal(slot_count(wanted, 0, OXP_SLOTS_LIMIT), 1021);
	assert_int_equal(slot_count(wanted, 10, OXP_SLOTS_LIMIT), 1021);
	assert_int_equal(slot_count(wanted, 11, OXP_SLOTS_LIMIT), 4093);
	assert_int_equal(slot_count(wanted, 4096, OXP_SLOTS_LIMIT), 1048573);
	assert_int_equal(slot_count(wanted, 4096, 13313), 4093);
	assert_int_equal(slot_count(wanted, 4096, 1000), 997);
	wanted[0].weight =
		256; /* one weight makes it up to four times larger */
	assert_int_equal(slot_count(wanted, 10, OXP_SLOTS_LIMIT), 4093);
	wanted[0].weight = 0;
	assert_int_equal(slot_count(wanted, 11, OXP_SLOTS_LIMIT), 1021);
}

RUN_TESTS(enter_namespace, NULL)
