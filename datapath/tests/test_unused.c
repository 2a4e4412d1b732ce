// SPDX-License-Identifier: Apache-2.0
/* Slots of a service that has forwarded no packet close at once. */
#include "fixture.h"

#include "state.h"

#define MEMBERS 4

static struct oxp_key key;
static struct oxp_member members[MEMBERS];

/* Tick like a result handler each second. Returns how many slots are open. */
static uint32_t pass_a_second(void)
{
	int open;

	if (!node->config->ticked)
		assert_true(oxp_slots_age(node, error) >= 0);
	node->config->ticked -= 1000;
	open = oxp_slots_age(node, error);
	assert_true(open >= 0);
	return open;
}

static int set_up_one_member(void **state)
{
	(void)state;
	open_empty_node();
	key = tcp_key(VIP, 80);
	make_members(members, MEMBERS, 0, 0);
	set_service(node, &key, members, 1);
	return 0;
}

static void add_members_one_by_one(void)
{
	for (uint32_t count = 2; count <= MEMBERS; count++)
		set_service(node, &key, members, count);
}

static void send_packet(uint8_t tcp_flags)
{
	struct variation variation = {.tcp_flags = tcp_flags};
	struct frame frame;

	make_frame(&frame, &web, 10, &variation);
	assert_int_equal(run(program, &frame, NULL), XDP_TX);
}

#undef TEST
#define TEST(name) TEST_WITH(name, set_up_one_member, tear_down)

TEST(test_slots_of_a_fresh_load_balancer_close)
{
	add_members_one_by_one();
	assert_true(pass_a_second() <= TEST_SLOTS);
	assert_int_equal(pass_a_second(), 0);
	assert_ok(oxp_test_verify(node, error));
}

TEST(test_slots_stay_open_after_an_earlier_packet)
{
	uint32_t open;

	send_packet(2);
	add_members_one_by_one();
	open = pass_a_second();
	assert_true(open > 0);
	assert_int_equal(pass_a_second(), open);
}

/* A packet during the change: it is counted by the time that all packets have
 * left that may have read the earlier table. */
static void send_while_waiting(void)
{
	when_waiting = NULL;
	send_packet(2);
}

TEST(test_packet_during_the_change_keeps_slots_open)
{
	add_members_one_by_one();
	when_waiting = send_while_waiting;
	assert_true(pass_a_second() > 0);
	assert_null(when_waiting);
	assert_true(pass_a_second() > 0);
}

TEST(test_changes_after_a_packet_open_slots)
{
	add_members_one_by_one();
	pass_a_second();
	assert_int_equal(pass_a_second(), 0);
	send_packet(2);
	set_service(node, &key, members, 2);
	assert_true(pass_a_second() > 0);
	assert_true(pass_a_second() > 0);
}

RUN_TESTS(enter_namespace, NULL)
