// SPDX-License-Identifier: Apache-2.0
/*
 * Ages of which only a few bits of the time are kept, and times in the future:
 * another CPU may have read the clock later.
 */
#include <bpf/bpf.h>

#include "age_since.h"
#include "clock.h"
#include "watch_fixture.h"

static uint64_t age(uint64_t then, uint64_t now)
{
	return age_since(then, now, FLOW_TIME_MASK, AGE_AHEAD);
}

PLAIN_TEST(test_ages_are_differences)
{
	assert_int_equal(age(100, 100), 0);
	assert_int_equal(age(100, 116), 16);
	assert_int_equal(age(0, 16000), 16000);
	assert_int_equal(age(100, 100 + FLOW_TIME_MASK - AGE_AHEAD),
			 FLOW_TIME_MASK - AGE_AHEAD);
	assert_int_equal(age_since(7, 5000000007, ~0U, AGE_AHEAD_MS),
			 5000000000 - (1ULL << 32));
}

PLAIN_TEST(test_bits_above_the_kept_ones_do_not_matter)
{
	assert_int_equal(age(FLOW_TIME_MASK, FLOW_TIME_MASK + 4), 4);
	assert_int_equal(age(FLOW_TIME_MASK, 3), 4);
	assert_int_equal(age(0xabcd0000 | 100, 0x12340000 | 116), 16);
	assert_int_equal(age_since(0xfffffffe, 3, ~0U, AGE_AHEAD), 5);
}

PLAIN_TEST(test_future_times_have_age_zero)
{
	for (uint64_t ahead = 1; ahead <= AGE_AHEAD; ahead++) {
		assert_int_equal(age(100 + ahead, 100), 0);
		assert_int_equal(age(ahead - 1, FLOW_TIME_MASK), 0);
	}
	assert_int_equal(
		age_since(1000 + AGE_AHEAD_MS, 1000, ~0U, AGE_AHEAD_MS), 0);
}

WATCHING(test_flows_noted_meanwhile_are_alive)
{
	open_flows(0, 10);
	let_pass(-2);
	assert_int_equal(alive(&web), 10);
	tick(SECOND, 0);
	assert_int_equal(alive(&web), 10);
}

/* Set the budgets of all known sources. Returns how many there are. */
static uint32_t set_budgets(union source_budget budget)
{
	int map = node->map[MAP_SOURCES];
	uint32_t known = 0;

	for (uint32_t i = 0; i < SOURCE_SETS; i++) {
		struct shared_set set;

		assert_int_equal(bpf_map_lookup_elem(map, &i, &set), 0);
		for (int way = 0; way < SHARE_WAYS; way++) {
			known += !!set.state[way];
			set.value[way] = budget.word;
		}
		assert_int_equal(bpf_map_update_elem(map, &i, &set, BPF_ANY),
				 0);
	}
	return known;
}

/* A CPU that read the clock before the last refill of a bucket does not refill
 * it again. */
TEST(test_late_clock_refills_no_bucket)
{
	const struct oxp_service_settings settings = {.new_flow_rate = 1,
						      .new_flow_burst = 2};
	union source_budget budget = {};
	struct frame syn;

	set_with_one_member(node, key_of(&web), settings);
	make_frame(&syn, &web, 0, &(struct variation){.tcp_flags = SYN});
	expect_forwarded(&syn);
	budget.time = coarse_time() / 1000000 + 1000;
	assert_int_equal(set_budgets(budget), 1);
	expect_dropped(&syn, OXP_DROP_RATE);
}

RUN_TESTS(enter_namespace, NULL)
