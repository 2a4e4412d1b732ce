// SPDX-License-Identifier: Apache-2.0
/*
 * Allocation of NAT ports: groups and their limits, floods of SYNs, and when a
 * used port goes to another flow.
 */
#include "nat_fixture.h"

#define FLOOD 20000
#define FLOODING 100000 /* clients from here on */

static uint64_t evicted(void)
{
	return outcome(OXP_NAT_EVICTED).packets;
}

static void establish_some(uint32_t from, uint32_t count, const struct flow *to)
{
	for (uint32_t i = from; i < from + count; i++)
		establish(i, to);
}

static void expect_all_alive(uint32_t from, uint32_t count,
			     const struct flow *to)
{
	for (uint32_t i = from; i < from + count; i++)
		expect_alive(i, to);
}

/* Send from spoofed clients. Returns how many got no port. */
static uint32_t flood(uint32_t count, const struct flow *to)
{
	uint32_t refused = 0;

	for (uint32_t i = FLOODING; i < FLOODING + count; i++)
		refused += from_client(i, to, SYN) != XDP_TX;
	assert_int_equal(outcome(OXP_DROP_NAT_FULL).packets, refused);
	return refused;
}

NAT_TEST(test_each_flow_has_its_own_port)
{
	establish_some(0, 1000, &ours);
	assert_int_equal(flows_of(OURS), 1000);
	/* with a shared port only one of both would be found */
	expect_all_alive(0, 1000, &ours);
	assert_int_equal(evicted(), 0);
}

NAT_TEST(test_group_gets_no_more_flows_than_its_limit)
{
	struct nat_flow *ended;

	set_nat(&ours, OURS, 256, 8080);
	establish_some(0, 256, &ours);
	expect_full(256, &ours);
	assert_int_equal(flows_of(OURS), 256);
	establish_some(0, 300, &theirs);
	/* flows in TIME_WAIT still have their port */
	ended = find_flow(7, &ours);
	assert_int_equal(from_client(7, &ours, RST), XDP_TX);
	expect_full(256, &ours);
	silent_for(ended, NAT_TIME_WAIT_TIME + 1);
	age();
	assert_int_equal(flows_of(OURS), 255);
	establish(256, &ours);
	expect_full(257, &ours);
	assert_int_equal(evicted(), 0);
	expect_all_alive(0, 7, &ours);
	expect_all_alive(8, 249, &ours);
}

NAT_TEST(test_without_limit_half_of_all_ports_stay_free)
{
	establish_some(0, POOL_PORTS / 2, &ours);
	for (uint32_t i = 0; i < 100; i++)
		expect_full(FLOODING + i, &ours);
	assert_int_equal(flows_of(OURS), POOL_PORTS / 2);
	assert_int_equal(service_of(&ours).active_flows, POOL_PORTS / 2);
	establish_some(0, 1000, &theirs);
	assert_int_equal(flows_of(THEIRS), 1000);
}

NAT_TEST(test_established_flows_are_not_ended_for_others)
{
	struct nat_flow *flow;

	set_nat(&ours, OURS, ALL_PORTS, 8080);
	flow = establish(0, &ours);
	fill_pool_like(flow);
	assert_int_equal(flows_of(OURS), POOL_PORTS);
	for (uint32_t i = 0; i < 100; i++) {
		expect_full(FLOODING + i, &ours);
		expect_full(FLOODING + i, &theirs);
	}
	assert_int_equal(evicted(), 0);
	expect_alive(0, &ours);
}

NAT_TEST(test_flood_ends_only_half_open_flows)
{
	establish_some(0, 100, &ours);
	establish_some(0, 100, &theirs);
	for (uint32_t i = 100; i < 110; i++)
		open_flow(i, &theirs);
	assert_int_equal(flood(FLOOD, &ours), 0);
	assert_int_equal(flows_of(OURS), 100 + OXP_NAT_HALF_OPEN_MAX);
	assert_int_equal(service_of(&ours).active_flows,
			 100 + OXP_NAT_HALF_OPEN_MAX);
	/* established ones passed through the ring as well */
	assert_int_equal(evicted(), FLOOD - OXP_NAT_HALF_OPEN_MAX);
	expect_all_alive(0, 100, &ours);
	expect_all_alive(0, 100, &theirs);
	assert_int_equal(flows_of(THEIRS), 110);
	for (uint32_t i = 100; i < 110; i++)
		assert_non_null(find_flow(i, &theirs));
}

/* The group has all its flows, with fewer half-open ones than allowed. */
NAT_TEST(test_flood_leaves_room_in_a_small_group)
{
	set_nat(&ours, OURS, 256, 8080);
	establish_some(0, 100, &ours);
	/* the search first passes the established ones, 16 at once */
	assert_int_equal(flood(1000, &ours), 100 / 16);
	assert_int_equal(flows_of(OURS), 256);
	assert_int_equal(evicted(), 1000 - 156 - 100 / 16);
	assert_non_null(find_flow(FLOODING + 999, &ours));
	assert_non_null(find_flow(FLOODING + 999 - 155, &ours));
	assert_null(find_flow(FLOODING + 999 - 156, &ours));
	establish(100, &ours);
	expect_all_alive(0, 101, &ours);
}

/* Many flows became established long ago, and the search meets these first. */
NAT_TEST(test_full_large_group_ends_half_open_flows)
{
	uint32_t tries = 0;

	set_nat(&ours, OURS, 4096, 8080);
	establish_some(0, 3000, &ours);
	assert_int_equal(flood(1096, &ours), 0);
	assert_int_equal(flows_of(OURS), 4096);
	while (from_client(3000, &ours, SYN) != XDP_TX)
		assert_true(++tries <= 3000 / 16 + 1);
	assert_int_equal(evicted(), 1);
	assert_null(find_flow(FLOODING, &ours));
	assert_int_equal(flows_of(OURS), 4096);
	expect_all_alive(0, 3000, &ours);
}

NAT_TEST(test_port_in_time_wait_is_kept_from_the_same_member)
{
	fill_pool_in_time_wait();
	set_nat(&theirs, THEIRS, 0, 8080);
	for (uint32_t i = 1; i < 100; i++)
		expect_full(i, &theirs);
	all_silent_for(NAT_TIME_WAIT_TIME + 1);
	for (uint32_t i = 1; i < 100; i++)
		establish(i, &theirs);
	assert_int_equal(flows_of(OURS), POOL_PORTS - 99);
	assert_int_equal(flows_of(THEIRS), 99);
	assert_int_equal(evicted(), 0);
}

NAT_TEST(test_port_in_time_wait_serves_another_member_port)
{
	fill_pool_in_time_wait();
	/* the same address with another port */
	establish_some(0, 100, &theirs);
	assert_int_equal(flows_of(THEIRS), 100);
	assert_int_equal(flows_of(OURS), POOL_PORTS - 100);
}

RUN_TESTS(enter_namespace, NULL)
