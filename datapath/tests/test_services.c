// SPDX-License-Identifier: Apache-2.0
/* Services, members and their health through the public interface. */
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <unistd.h>

#include "service_fixture.h"
#include "table/heads.h"

static const struct oxp_service_settings small = {.slots = TEST_SLOTS};

static struct oxp_member_state member_state(uint32_t which)
{
	struct oxp_member_state states[OXP_MEMBERS_MAX];
	int count =
		oxp_members_list(node, &http, states, OXP_MEMBERS_MAX, error);

	assert_true((int)which < count);
	return states[which];
}

static void expect_health(uint32_t which, int healthy, int known)
{
	struct oxp_member_state state = member_state(which);

	assert_int_equal(state.healthy, healthy);
	assert_int_equal(state.known, known);
}

static int apply(uint64_t check, uint8_t up)
{
	struct oxp_health_result result = {check, up};

	return oxp_health_apply(node, &result, 1, error);
}

TEST(test_setting_an_equal_service_changes_nothing)
{
	struct oxp_member members[3], swapped[3];
	uint8_t changed;

	make_members(members, 3, 0, 0);
	set_service(node, &http, members, 3);
	assert_int_equal(show().generation, 1);
	for (int i = 0; i < 3; i++)
		swapped[i] = members[2 - i];
	assert_ok(oxp_service_set(node, &http, &small, swapped, 3, &changed,
				  error));
	assert_int_equal(changed, 0);
	assert_int_equal(show().generation, 1);
	swapped[1].weight = 2;
	assert_ok(oxp_service_set(node, &http, &small, swapped, 3, &changed,
				  error));
	assert_int_equal(changed, 1);
	assert_int_equal(show().generation, 2);
}

TEST(test_ports_of_one_address_are_separate_members)
{
	struct oxp_member members[4];
	struct oxp_member_state states[4];
	uint16_t ports[] = {8081, 80, 8080, 0};
	uint16_t before[TEST_SLOTS], after[TEST_SLOTS];

	make_members(members, 4, 0, 7);
	for (int i = 0; i < 4; i++) {
		members[i].address = members[0].address;
		members[i].port = ports[i];
	}
	set_service(node, &http, members, 4);
	for (int i = 0; i < 4; i++)
		apply(7 + i, 1);
	assert_int_equal(oxp_members_list(node, &http, states, 4, error), 4);
	for (int i = 1; i < 4; i++)
		assert_true(states[i - 1].port < states[i].port);
	oxp_table_get(node, &http, before, NULL, TEST_SLOTS, NULL, error);
	/* one that goes down leaves the slots and counters of others alone */
	assert_int_equal(apply(7, 0), 1); /* port 8081 */
	expect_health(2, 1, 1);
	expect_health(3, 0, 1);
	oxp_table_get(node, &http, after, NULL, TEST_SLOTS, NULL, error);
	for (int i = 0; i < TEST_SLOTS; i++)
		assert_true(after[i] < 3);
	/* another port is another member, even at the same place */
	members[0].port = 8082;
	set_service(node, &http, members, 4);
	expect_health(3, 0, 0);
	assert_int_equal(member_state(3).port, 8082);
	members[1].port = 8082;
	assert_int_equal(
		oxp_service_set(node, &http, &small, members, 4, NULL, error),
		-EINVAL);
	assert_non_null(strstr(error, "port 8082"));
}

/* Nodes of before ports were written have members without a port. */
TEST(test_member_that_gets_a_port_stays_the_same)
{
	struct oxp_member members[3];
	uint16_t before[TEST_SLOTS], after[TEST_SLOTS], old[TEST_SLOTS];
	uint32_t open; /* as members came up one by one */

	make_members(members, 3, 0, 7);
	set_service(node, &http, members, 3);
	for (int i = 0; i < 3; i++)
		apply(7 + i, 1);
	oxp_table_get(node, &http, before, NULL, TEST_SLOTS, NULL, error);
	open = show().open_slots;
	for (int step = 0; step < 2; step++) {
		for (int i = 0; i < 3; i++)
			members[i].port = step ? 0 : 8080 + i;
		set_service(node, &http, members, 3);
		for (int i = 0; i < 3; i++)
			expect_health(i, 1, 1);
		assert_int_equal(member_state(1).port, members[1].port);
		oxp_table_get(node, &http, after, old, TEST_SLOTS, NULL, error);
		assert_memory_equal(after, before, sizeof(before));
		assert_int_equal(show().open_slots, open);
	}
	/* the lower port existed before; a third one is new */
	members[0].port = 9001;
	members[2] = members[0];
	members[2].port = 9000;
	set_service(node, &http, members, 3);
	expect_health(0, 1, 1);
	expect_health(1, 0, 0);
	assert_int_equal(member_state(0).port, 9000);
}

TEST(test_new_members_with_a_check_are_down)
{
	struct oxp_member members[2];

	make_members(members, 2, 0, 0);
	members[1].check = 7;
	set_service(node, &http, members, 2);
	expect_health(0, 1, 0);
	expect_health(1, 0, 0);
	assert_int_equal(show().enabled, 1);
}

TEST(test_health_is_carried_over_with_the_check)
{
	struct oxp_member members[2];

	make_members(members, 2, 0, 0);
	set_service(node, &http, members, 1);
	members[0].check = 7; /* new check: keeps its traffic */
	set_service(node, &http, members, 1);
	expect_health(0, 1, 0);
	assert_int_equal(apply(7, 0), 1);
	expect_health(0, 0, 1);
	members[0].weight = 5; /* same check: keeps its state */
	set_service(node, &http, members, 2);
	expect_health(0, 0, 1);
	members[0].check = 8; /* other check: unknown */
	set_service(node, &http, members, 2);
	expect_health(0, 0, 0);
	assert_int_equal(apply(7, 1), 0);
	assert_int_equal(apply(8, 1), 1);
	expect_health(0, 1, 1);
	members[0].check = 9;
	set_service(node, &http, members, 2);
	expect_health(0, 1, 0);
	assert_int_equal(apply(9, 0), 1);
	members[0].check = 0; /* check removed: up */
	set_service(node, &http, members, 2);
	expect_health(0, 1, 0);
}

TEST(test_results_of_a_call_switch_a_service_once)
{
	struct oxp_member members[10];
	struct oxp_health_result results[12];
	struct oxp_key https = tcp_key(VIP, 443);
	uint64_t generation;

	make_members(members, 10, 0, 100);
	set_service(node, &http, members, 10);
	set_service(node, &https, members, 5);
	for (int i = 0; i < 10; i++)
		results[i] = (struct oxp_health_result){100 + i, 1};
	results[10] =
		(struct oxp_health_result){100, 0}; /* the last one counts */
	results[11] = (struct oxp_health_result){9999, 1};
	assert_int_equal(oxp_health_apply(node, results, 12, error), 2);
	assert_int_equal(show().generation, 2);
	assert_int_equal(show().enabled, 9);
	expect_health(0, 0, 1);
	assert_ok(oxp_health_apply(node, results, 12, error));

	/* drained, but its flows end now, so packets must be told */
	members[9].weight = 0;
	set_service(node, &http, members, 10);
	generation = show().generation;
	assert_int_equal(apply(109, 0), 1);
	expect_health(9, 0, 1);
	assert_int_equal(show().generation, generation + 1);
	/* changes that packets do not read are made in place */
	members[9].admin_up = 0;
	set_service(node, &http, members, 10);
	generation = show().generation;
	assert_int_equal(apply(109, 1), 0);
	expect_health(9, 1, 1);
	assert_int_equal(show().generation, generation);
}

TEST(test_slots_lead_nowhere_without_healthy_members)
{
	struct oxp_member member;
	uint16_t table[TEST_SLOTS];

	make_members(&member, 1, 0, 5);
	set_service(node, &http, &member, 1);
	assert_int_equal(apply(5, 1), 1);
	assert_int_equal(apply(5, 0), 1);
	assert_int_equal(show().enabled, 0);
	assert_int_equal(oxp_table_get(node, &http, table, NULL, TEST_SLOTS,
				       NULL, error),
			 TEST_SLOTS);
	for (int i = 0; i < TEST_SLOTS; i++)
		assert_int_equal(table[i], OXP_NO_MEMBER);
}

/* Nodes that saw the same events in another order have equal tables. */
TEST(test_table_does_not_depend_on_the_order_of_events)
{
	struct oxp_key https = tcp_key(VIP, 443);
	uint16_t left[TEST_SLOTS], right[TEST_SLOTS];
	struct oxp_member members[8];

	make_members(members, 8, 0, 10);
	for (int i = 0; i < 8; i++)
		members[i].weight = i + 1;
	set_service(node, &http, members, 8);
	for (int i = 0; i < 8; i++)
		apply(10 + i, 1);
	apply(12, 0);

	for (int i = 0; i < 8; i++)
		members[i].check += 100;
	for (int i = 1; i <= 8; i++) {
		set_service(node, &https, members, i);
		apply(110 + 8 - i, 1);
		apply(112, 0);
	}
	for (int i = 7; i >= 0; i--)
		apply(110 + i, i != 2);
	oxp_table_get(node, &http, left, NULL, TEST_SLOTS, NULL, error);
	oxp_table_get(node, &https, right, NULL, TEST_SLOTS, NULL, error);
	assert_memory_equal(left, right, sizeof(left));
}

static void send_packets(int program, int packets)
{
	struct flow flow = {CLIENT, VIP, 40000, 80, IPPROTO_TCP};
	struct frame frame;

	make_frame(&frame, &flow, 0, NULL);
	for (int i = 0; i < packets; i++)
		assert_int_equal(run(program, &frame, NULL), XDP_TX);
}

TEST(test_counters_stay_with_members)
{
	struct oxp_member members[3];
	int program = forward_program(node);

	make_members(members, 3, 0, 0);
	set_service(node, &http, members + 1, 1);
	send_packets(program, 5);
	set_service(node, &http, members, 3);
	assert_int_equal(member_state(0).counters.packets, 0);
	assert_int_equal(member_state(1).counters.packets, 5);
	/* removed and added again: starts at zero with any counter */
	set_service(node, &http, members, 1);
	set_service(node, &http, members, 2);
	assert_int_equal(member_state(1).counters.packets, 0);
	assert_int_equal(show().counters.packets, 5);
	assert_int_equal(oxp_services_delete(node, &http, 1, error), 1);
	set_service(node, &http, members, 2);
	assert_int_equal(show().counters.packets, 0);
	close(program);
}

/* A flow may be remembered with a removed member: its place is empty, also in
 * the block that had it, or no longer exists. */
TEST(test_places_of_removed_members_are_empty)
{
	static const struct block_member nobody;
	static const struct member_head nothing;
	struct oxp_member members[3];
	struct service_block *block;

	make_members(members, 3, 0, 5);
	set_service(node, &http, members, 3);
	block = live_block(node, show().index);
	members[1] = members[2];
	set_service(node, &http, members, 2);
	assert_int_equal(apply(5, 1), 1);
	assert_ptr_equal(live_block(node, show().index), block);
	assert_int_equal(block->members, 3);
	assert_memory_equal(&block->member[1], &nobody, sizeof(nobody));
	assert_memory_equal(&heads_of(block)[1], &nothing, sizeof(nothing));
	assert_int_equal(heads_of(block)[2].flags & MEMBER_PRESENT,
			 MEMBER_PRESENT);
	set_service(node, &http, members, 1);
	assert_int_equal(live_block(node, show().index)->members, 1);
}

RUN_TESTS(enter_namespace, NULL)
