// SPDX-License-Identifier: Apache-2.0
/* Histories that are refused: invalid ones, and those that come too late. */
#include "history_fixture.h"

TEST(test_who_is_no_member_gets_nothing)
{
	struct oxp_past_weight changes[] = {past(2, 0, 5), past(3, 9, 5),
					    past(0, 2, 5)};

	changes[2].port = 8080; /* no member has this port */
	set_members(0, 3);
	assert_int_equal(apply(changes, 3), 1);
	for (uint32_t i = 0; i < TEST_SLOTS; i++) {
		assert_int_equal(owner_at(block(), i), three[i]);
		if (slot_is_open(block(), i))
			assert_true(before_at(block(), i) < 3);
	}
}

TEST(test_history_without_takers_changes_nothing)
{
	const struct oxp_past_weight changes[] = {past(0, 0, 5), past(1, 0, 5)};

	set_members(0, 2);
	assert_int_equal(apply(changes, 2), 1);
	assert_int_equal(block()->open, 0);
}

TEST(test_history_is_ignored_after_the_first_packet)
{
	struct oxp_past_weight added = past(2, 0, 25);
	struct variation variation = {.tcp_flags = 2};
	uint64_t generation;
	struct frame frame;

	set_members(0, 3);
	make_frame(&frame, &web, 10, &variation);
	assert_int_equal(run(program, &frame, NULL), XDP_TX);
	generation = block()->generation;
	assert_int_equal(apply(&added, 1), 0);
	assert_int_equal(block()->generation, generation);
	assert_int_equal(block()->open, 0);
}

static void expect_refused(struct oxp_past_weight *changes, uint32_t count,
			   const char *why)
{
	uint64_t generation = block()->generation;

	assert_int_equal(oxp_history_apply(node, &key, changes, count, error),
			 -EINVAL);
	assert_non_null(strstr(error, why));
	assert_int_equal(block()->generation, generation);
}

TEST(test_impossible_values_are_refused_by_name)
{
	static struct oxp_past_weight many[OXP_HISTORY_MAX + 1];
	struct oxp_past_weight changes[] = {past(2, 0, 25), past(1, 0, 24)};

	set_members(0, 3);
	expect_refused(many, OXP_HISTORY_MAX + 1, "1025 past weights");
	expect_refused(changes, 2, "past weight 1: the one before is older");
	changes[1] = past(1, OXP_WEIGHT_MAX + 1, 25);
	expect_refused(changes, 2, "past weight 1: it is 257");
	changes[1] = past(1, 0, 25);
	changes[1].slots = 1000;
	expect_refused(changes, 2, "past weight 1: a table of 1000 slots");
	changes[1].slots = 1013;
	expect_refused(changes, 2, "a prime up to 1009");
	key.port = 81;
	assert_int_equal(oxp_history_apply(node, &key, changes, 1, error),
			 -ENOENT);
}

RUN_TESTS(enter_namespace, NULL)
