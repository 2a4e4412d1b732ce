// SPDX-License-Identifier: Apache-2.0
/*
 * Configured time-outs of NAT flows: effective at once, for existing flows as
 * well, in the library and for packets.
 */
#include <errno.h>

#include "nat_fixture.h"

/* Margin below a time-out: the test itself takes time. */
#define SHORT_OF 5

static const struct oxp_nat_timeouts others = {
	.tcp_opening_s = 30,
	.tcp_closing_s = 50,
	.time_wait_s = 20,
	.udp_opening_s = 40,
};

static void set_timeouts(const struct oxp_nat_timeouts *wanted)
{
	assert_ok(oxp_nat_timeouts_set(node, wanted, error));
}

static void expect_timeouts(const struct oxp_nat_timeouts *wanted)
{
	struct oxp_nat_timeouts is;

	assert_ok(oxp_nat_timeouts_get(node, &is, error));
	assert_memory_equal(&is, wanted, sizeof(is));
}

/* Without packets the flow lives nearly this long, and no longer; what is
 * listed agrees. */
static void expect_end(uint32_t client, const struct flow *to, uint32_t seconds)
{
	struct nat_flow *flow = find_flow(client, to);
	struct oxp_nat_filter filter = {.pool = address(POOL)};
	struct oxp_nat_flow told;

	assert_non_null(flow);
	filter.pool_port = flow - pool_table();
	silent_for(flow, seconds - SHORT_OF);
	age();
	assert_int_equal(oxp_nat_flows_list(node, &filter, &told, 1, error), 1);
	assert_int_equal(told.idle_s + told.expires_s, seconds);
	silent_for(flow, seconds + 1);
	age();
	assert_int_equal(flow->state, NAT_FREE);
}

NAT_TEST(test_timeouts_apply_to_existing_flows)
{
	open_flow(0, &ours);
	open_flow(0, &ours_udp);
	establish(1, &ours);
	assert_int_equal(from_client(1, &ours, FIN), XDP_TX);
	establish(2, &ours);
	assert_int_equal(from_client(2, &ours, RST), XDP_TX);
	establish(3, &ours);
	set_timeouts(&others);
	expect_end(0, &ours, others.tcp_opening_s);
	expect_end(0, &ours_udp, others.udp_opening_s);
	expect_end(1, &ours, others.tcp_closing_s);
	expect_end(2, &ours, others.time_wait_s);
	/* it has another time-out */
	expect_end(3, &ours, 7440);
}

NAT_TEST(test_zero_timeouts_are_the_defaults)
{
	static const struct oxp_nat_timeouts none, usual = {
							   .tcp_opening_s = 240,
							   .tcp_closing_s = 240,
							   .time_wait_s = 60,
							   .udp_opening_s = 120,
						   };
	struct oxp_nat_timeouts some = usual;

	expect_timeouts(&usual);
	set_timeouts(&others);
	expect_timeouts(&others);
	set_timeouts(&none);
	expect_timeouts(&usual);
	some.udp_opening_s = 0;
	set_timeouts(&some);
	expect_timeouts(&usual);
	open_flow(0, &ours_udp);
	expect_end(0, &ours_udp, usual.udp_opening_s);
}

static void expect_refused(const struct oxp_nat_timeouts *wanted,
			   const char *name)
{
	assert_int_equal(oxp_nat_timeouts_set(node, wanted, error), -EINVAL);
	assert_non_null(strstr(error, name));
	assert_non_null(strstr(error, "10 to 16000"));
	expect_timeouts(&others);
}

NAT_TEST(test_impossible_timeouts_are_refused)
{
	const struct oxp_nat_timeouts ends = {10, 16000, 10, 16000};

	set_timeouts(&ends);
	expect_timeouts(&ends);
	set_timeouts(&others);
	expect_refused(&(struct oxp_nat_timeouts){.tcp_opening_s = 9},
		       "tcp_opening_s");
	expect_refused(&(struct oxp_nat_timeouts){.tcp_closing_s = 16001},
		       "tcp_closing_s");
	expect_refused(&(struct oxp_nat_timeouts){.time_wait_s = UINT32_MAX},
		       "time_wait_s");
	expect_refused(&(struct oxp_nat_timeouts){.udp_opening_s = 1},
		       "udp_opening_s");
}

static void set_idle_timeout(uint16_t seconds)
{
	const struct oxp_service_settings settings = {
		.nat_group = OURS,
		.idle_timeout_s = seconds,
	};

	set_nat_as(&ours, settings, 8080);
}

NAT_TEST(test_established_flows_follow_their_service)
{
	establish(0, &ours);
	establish(1, &ours);
	establish(0, &theirs);
	set_idle_timeout(100);
	expect_end(0, &ours, 100);
	expect_end(0, &theirs, 7440);
	set_idle_timeout(16000);
	expect_end(1, &ours, 16000);
}

NAT_TEST(test_closing_flow_ends_no_later_than_others)
{
	set_idle_timeout(100);
	establish(0, &ours);
	assert_int_equal(from_client(0, &ours, FIN), XDP_TX);
	establish(1, &ours);
	assert_int_equal(from_member(find_flow(1, &ours), 0, FIN), XDP_TX);
	expect_end(0, &ours, 100);
	set_timeouts(&others);
	expect_end(1, &ours, others.tcp_closing_s);
}

NAT_TEST(test_packets_take_ports_after_the_time_wait)
{
	fill_pool_in_time_wait();
	set_nat(&theirs, THEIRS, 0, 8080);
	all_silent_for(others.time_wait_s + 1);
	expect_full(1, &theirs);
	set_timeouts(&others);
	establish(1, &theirs);
	all_silent_for(NAT_TIME_WAIT_TIME + 1);
	set_timeouts(&(struct oxp_nat_timeouts){.time_wait_s = 16000});
	expect_full(2, &theirs);
}

RUN_TESTS(enter_namespace, NULL)
