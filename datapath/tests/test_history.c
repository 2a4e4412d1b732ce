// SPDX-License-Identifier: Apache-2.0
/*
 * Earlier owners of slots from a history, on a node that has seen none of it.
 * They must be those of the Maglev paper's tables for each time in turn.
 */
#include "history_fixture.h"

/* Tick like a result handler, so that ages grow once. Returns the number of
 * open slots. */
static uint32_t grow_older(void)
{
	int open;

	if (!node->config->ticked)
		assert_true(oxp_slots_age(node, error) >= 0);
	node->config->ticked -= IDLE_S * 1000 / 8;
	open = oxp_slots_age(node, error);
	assert_true(open >= 0);
	return open;
}

TEST(test_added_member_leaves_slots_open)
{
	struct oxp_past_weight added = past(2, 0, 25);
	uint32_t open;

	set_members(0, 3);
	assert_int_equal(apply(&added, 1), 1);
	open = expect_open(two, three);
	/* nothing was forwarded here, but slots stay open: other nodes may have
	 * forwarded */
	for (int i = 0; i < 8; i++)
		assert_int_equal(grow_older(), open);
	assert_int_equal(grow_older(), 0);
}

TEST(test_change_has_the_age_that_is_given)
{
	/* 200 s of 400 s: four of nine steps are over */
	struct oxp_past_weight added = past(2, 0, 200);
	uint32_t open;

	set_members(0, 3);
	assert_int_equal(apply(&added, 1), 1);
	open = block()->open;
	assert_true(open);
	for (int i = 0; i < 4; i++)
		assert_int_equal(grow_older(), open);
	assert_int_equal(grow_older(), 0);
}

TEST(test_slots_closed_elsewhere_are_closed)
{
	struct oxp_past_weight added = past(2, 0, 450);
	uint16_t out[TEST_SLOTS];

	set_members(0, 3);
	assert_int_equal(apply(&added, 1), 1);
	assert_int_equal(block()->open, 0);
	oxp_table_get(node, &key, out, NULL, TEST_SLOTS, NULL, error);
	assert_memory_equal(out, three, sizeof(out));
}

/* The other member in packets outlives the slot's closing. */
static void expect_changed(const uint16_t *earlier, const uint16_t *now)
{
	for (uint32_t i = 0; i < TEST_SLOTS; i++) {
		assert_int_equal(slot_is_changed(block(), i),
				 earlier[i] != now[i]);
		if (earlier[i] != now[i])
			assert_int_equal(before_at(block(), i), earlier[i]);
	}
}

TEST(test_second_chance_names_the_earlier_owner)
{
	static const uint32_t ages[] = {25, 450, 16000};

	set_members(OXP_SERVICE_SECOND_CHANCE, 3);
	for (int i = 0; i < 3; i++) {
		struct oxp_past_weight added = past(2, 0, ages[i]);

		assert_int_equal(apply(&added, 1), 1);
		expect_changed(two, three);
		assert_int_equal(!block()->open, ages[i] > IDLE_S);
	}
}

/* {0, 1}, then {0, 1, 2}, then {0, 1, 2, 3}, all within the idle timeout:
 * unknown flows stay where they were at first. */
TEST(test_several_changes_follow_each_other)
{
	const struct oxp_past_weight changes[] = {past(3, 0, 20),
						  past(2, 0, 60)};
	uint32_t back = 0;

	set_members(0, 4);
	assert_int_equal(apply(changes, 2), 1);
	for (uint32_t i = 0; i < TEST_SLOTS; i++) {
		bool open = two[i] != three[i] || three[i] != four[i];

		assert_int_equal(slot_is_open(block(), i), open);
		assert_int_equal(owner_at(block(), i), four[i]);
		if (open)
			assert_int_equal(before_at(block(), i), two[i]);
		back += open && two[i] == four[i];
	}
	assert_true(back);
}

/* The same, but slots closed in between: only the second change counts. */
TEST(test_slot_closes_between_two_changes)
{
	const struct oxp_past_weight changes[] = {past(3, 0, 20),
						  past(2, 0, 800)};

	set_members(0, 4);
	assert_int_equal(apply(changes, 2), 1);
	expect_open(three, four);
}

/* Slots whose owner is a member and was another one; those of a member that was
 * removed are closed, as their flows are lost. */
static void expect_open_without(uint16_t removed, const uint16_t *earlier,
				const uint16_t *now)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < TEST_SLOTS; i++) {
		bool moved = earlier[i] != removed && earlier[i] != now[i];

		assert_int_equal(owner_at(block(), i), now[i]);
		assert_int_equal(slot_is_open(block(), i), moved);
		if (moved)
			assert_int_equal(before_at(block(), i), earlier[i]);
		open += moved;
	}
	assert_true(open);
}

TEST(test_removed_member_leaves_slots_of_others_open)
{
	struct oxp_past_weight removed = past(3, 1, 25);

	set_members(0, 3);
	assert_int_equal(apply(&removed, 1), 1);
	expect_open_without(3, four, three);
}

/* Member 3 came and went again: flows of the others are where they were. */
TEST(test_member_that_came_and_went_leaves_earlier_owners)
{
	const struct oxp_past_weight changes[] = {past(3, 1, 20),
						  past(3, 0, 60)};

	set_members(0, 3);
	assert_int_equal(apply(changes, 2), 1);
	for (uint32_t i = 0; i < TEST_SLOTS; i++) {
		assert_int_equal(owner_at(block(), i), three[i]);
		assert_int_equal(slot_is_open(block(), i), three[i] != four[i]);
		if (three[i] != four[i])
			assert_int_equal(before_at(block(), i), three[i]);
	}
}

TEST(test_history_with_other_weights)
{
	/* one change of two members */
	const struct oxp_past_weight changes[] = {past(0, 3, 10),
						  past(1, 0, 10)};
	uint16_t earlier[TEST_SLOTS], now[TEST_SLOTS];

	owners_of((uint16_t[]){3, 0, 1, 0}, TEST_SLOTS, earlier);
	owners_of((uint16_t[]){1, 1, 1, 0}, TEST_SLOTS, now);
	set_members(0, 3);
	assert_int_equal(apply(changes, 2), 1);
	expect_open(earlier, now);
}

TEST(test_history_with_another_number_of_slots)
{
	struct oxp_past_weight changes[] = {past(2, 0, 30), past(1, 0, 90)};
	uint16_t out[TEST_SLOTS], before[TEST_SLOTS], few[509];
	uint32_t slots;

	changes[0].slots = 509;
	changes[1].slots = 509; /* entries beyond it are ignored */
	owners_of((uint16_t[]){1, 1, 0, 0}, 509, few);
	set_members(0, 3);
	assert_int_equal(apply(changes, 2), 1);
	assert_int_equal(oxp_table_get(node, &key, out, before, TEST_SLOTS,
				       &slots, error),
			 TEST_SLOTS);
	assert_int_equal(slots, 509);
	assert_memory_equal(before, few, sizeof(few));
	assert_true(block()->flags & BLOCK_OPEN);
}

TEST(test_learning_lasts_for_the_remaining_time)
{
	struct oxp_past_weight added = past(2, 0, 100);

	key = udp_key(VIP, 53);
	set_members(0, 3);
	assert_int_equal(apply(&added, 1), 1);
	assert_true(block()->flags & BLOCK_LEARNING);
	assert_int_equal(block()->learning, IDLE_S - 100);
}

/* On a booting node members come up one after the other, unlike on other
 * nodes. */
TEST(test_health_seen_by_this_node_does_not_count)
{
	struct oxp_past_weight added = past(2, 0, 25);

	make_members(members, MEMBERS, 0, 100);
	set_members(OXP_SERVICE_SECOND_CHANCE, 3);
	for (uint32_t i = 0; i < 3; i++) {
		struct oxp_health_result up = {members[2 - i].check, 1};

		assert_int_equal(apply(&added, 1), 1);
		assert_int_equal(oxp_health_apply(node, &up, 1, error), 1);
	}
	assert_int_equal(apply(&added, 1), 1);
	expect_open(two, three);
	expect_changed(two, three);
}

RUN_TESTS(enter_namespace, NULL)
