// SPDX-License-Identifier: Apache-2.0
/*
 * Too many half-open NAT flows: those answered or over give way before those
 * that still wait.
 */
#include "nat_fixture.h"

/* Enough queries that each place of a group's ring is reused several times. */
#define TURNS (5 * OXP_NAT_HALF_OPEN_MAX)
#define OTHERS 100000 /* clients from here on */

static void answer(const struct nat_flow *flow)
{
	assert_non_null(flow);
	assert_int_equal(from_member(flow, 100, 0), XDP_TX);
}

static void ask(uint32_t client)
{
	assert_int_equal(from_client(client, &ours_udp, 0), XDP_TX);
}

static void ask_and_answer(uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++) {
		ask(i);
		answer(find_flow(i, &ours_udp));
	}
}

/* Returns how many of the clients get their answer. */
static uint32_t answer_all(uint32_t count)
{
	uint32_t answered = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct nat_flow *flow = find_flow(i, &ours_udp);

		answered += flow && from_member(flow, 100, 0) == XDP_TX;
	}
	return answered;
}

NAT_TEST(test_a_query_waits_while_others_are_answered)
{
	ask(0);
	ask_and_answer(OTHERS, TURNS);
	answer(find_flow(0, &ours_udp));
}

/* One in eight is slow. */
NAT_TEST(test_many_slow_queries_wait_among_others)
{
	for (uint32_t i = 0; i < 400; i++) {
		ask(i);
		ask_and_answer(OTHERS + 10 * i, 7);
	}
	ask_and_answer(2 * OTHERS, TURNS);
	assert_int_equal(answer_all(400), 400);
}

/* A member stalls for a moment. Room for others is found behind its flows, in
 * steps. */
NAT_TEST(test_most_of_a_burst_of_queries_waits)
{
	uint32_t answered;

	for (uint32_t i = 0; i < 500; i++)
		ask(i);
	ask_and_answer(OTHERS, OXP_NAT_HALF_OPEN_MAX);
	answered = answer_all(500);
	print_message("%u of 500\n", answered);
	assert_in_range(answered, 450, 500);
}

/* A slow handshake among connections that open at once. */
NAT_TEST(test_a_handshake_outlasts_those_that_are_over)
{
	struct nat_flow *slow = open_flow(0, &ours);

	assert_int_equal(from_member(slow, 0, SYN_ACK), XDP_TX);
	for (uint32_t i = OTHERS; i < OTHERS + TURNS; i++)
		establish(i, &ours);
	assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
	expect_alive(0, &ours);
}

/* A flood always has the same share, and its flows are replaced in turn. */
NAT_TEST(test_unanswered_queries_are_ended_in_turn)
{
	ask_and_answer(0, 100);
	for (uint32_t i = OTHERS; i < OTHERS + TURNS; i++)
		ask(i);
	assert_int_equal(flows_of(OURS), OXP_NAT_HALF_OPEN_MAX);
	for (uint32_t i = 0; i < OXP_NAT_HALF_OPEN_MAX; i++)
		assert_non_null(find_flow(OTHERS + TURNS - 1 - i, &ours_udp));
	/* afterwards all is as before */
	ask(0);
	for (uint32_t i = OTHERS; i < OTHERS + TURNS; i++) {
		struct nat_flow *flow = find_flow(i, &ours_udp);

		if (flow)
			answer(flow);
	}
	ask_and_answer(2 * OTHERS, TURNS);
	answer(find_flow(0, &ours_udp));
}

NAT_TEST(test_group_without_ports_ends_answered_flows)
{
	const struct oxp_service_settings settings = {
		.nat_group = OURS,
		.nat_flows = 256,
	};

	set_nat_as(&ours_udp, settings, 0);
	ask(0);
	ask_and_answer(OTHERS, TURNS);
	assert_int_equal(flows_of(OURS), 256);
	answer(find_flow(0, &ours_udp));
}

RUN_TESTS(enter_namespace, NULL)
