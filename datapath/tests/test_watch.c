// SPDX-License-Identifier: Apache-2.0
/* How many flows are alive: what packets note, and what counts. */
#include "watch_fixture.h"

#define WATCHING(name) TEST_WITH(name, set_up_watching, tear_down)

WATCHING(test_each_flow_counts_once_its_client_has_answered)
{
	for (uint32_t i = 0; i < 500; i++)
		send_as(i, &web, SYN);
	assert_int_equal(alive(&web), 0);
	for (int times = 0; times < 3; times++)
		for (uint32_t i = 0; i < 300; i++)
			send_as(i, &web, ACK);
	assert_int_equal(alive(&web), 300);
	assert_int_equal(alive(&dns), 0);
}

WATCHING(test_flow_ended_by_its_client_is_not_alive)
{
	open_flows(0, 10);
	send_as(0, &web, FIN);
	send_as(1, &web, RST);
	assert_int_equal(alive(&web), 8);
	/* it acknowledges the member's last data */
	send_as(0, &web, ACK);
	assert_int_equal(alive(&web), 8);
	/* a new flow from the same port */
	send_as(0, &web, SYN);
	assert_int_equal(alive(&web), 8);
	send_as(0, &web, ACK);
	assert_int_equal(alive(&web), 9);
	/* a repeated SYN of a live flow */
	send_as(2, &web, SYN);
	assert_int_equal(alive(&web), 9);
}

WATCHING(test_silent_flow_ends_after_the_idle_timeout)
{
	const struct oxp_service_settings settings = {.idle_timeout_s = 60};

	set_with_one_member(node, key_of(&web), settings);
	open_flows(0, 10);
	let_pass(50);
	for (uint32_t i = 0; i < 4; i++)
		send_as(i, &web, ACK);
	assert_int_equal(alive(&web), 10);
	let_pass(20);
	assert_int_equal(alive(&web), 4);
	/* places of the others are free again */
	tick(SECOND, 0);
	let_pass(FLOW_TIME_MASK + 1 - 20);
	assert_int_equal(alive(&web), 4);
}

WATCHING(test_udp_flows_are_alive_until_they_are_silent)
{
	for (uint32_t i = 0; i < 20; i++)
		send_as(i, &dns, 0);
	assert_int_equal(alive(&dns), 20);
	let_pass(351);
	send_as(3, &dns, 0);
	assert_int_equal(alive(&dns), 1);
}

WATCHING(test_one_client_may_have_several_flows)
{
	const struct oxp_service_settings settings = {
		.flags = OXP_SERVICE_SOURCE};
	struct flow flow = web;

	set_with_one_member(node, key_of(&web), settings);
	for (int i = 0; i < 30; i++, flow.source_port++)
		send_flow(&flow, ACK);
	assert_int_equal(alive(&web), 30);
}

WATCHING(test_fragments_and_errors_note_nothing)
{
	struct variation first = {
		.tcp_flags = ACK, .fragment = 0x2000, .id = 7};
	struct variation later = {.fragment = 0x0064, .id = 7};
	struct frame frame;

	make_frame(&frame, &web, 64, &later);
	run(program, &frame, NULL);
	assert_int_equal(alive(&web), 0);
	make_frame(&frame, &web, 64, &first);
	run(program, &frame, NULL);
	assert_int_equal(alive(&web), 1);
}

WATCHING(test_packets_leave_as_they_do_unwatched)
{
	struct frame frame, watched, unwatched;

	for (uint8_t kind = 0; kind < 4; kind++) {
		struct oxp_service_settings settings = {.encapsulation = kind,
							.dscp = 9};
		struct variation with = {.tcp_flags = ACK, .tos = 0x2c};

		/* SRv6 needs IPv6 */
		if (kind == OXP_SRV6)
			continue;
		if (kind != OXP_DSCP)
			settings.dscp = 0;
		set_with_one_member(node, key_of(&web), settings);
		for (int port = 1; port < 100; port++) {
			struct flow flow = web;

			flow.source_port = port;
			make_frame(&frame, &flow, port, &with);
			assert_int_equal(run(program, &frame, &watched),
					 XDP_TX);
			node->config->watched = 0;
			assert_ok(watch_uplinks(node, error));
			assert_int_equal(live_choices(), 0);
			assert_int_equal(run(program, &frame, &unwatched),
					 XDP_TX);
			node->config->watched = UINT64_MAX;
			assert_ok(watch_uplinks(node, error));
			assert_int_equal(watched.length, unwatched.length);
			assert_memory_equal(watched.data, unwatched.data,
					    watched.length);
		}
	}
}

WATCHING(test_recreated_service_starts_at_zero)
{
	const struct oxp_key key = key_of(&web);

	open_flows(0, 10);
	assert_int_equal(oxp_services_delete(node, &key, 1, error), 1);
	set_with_one_member(node, key, (struct oxp_service_settings){});
	assert_int_equal(alive(&web), 0);
	open_flows(0, 10);
	assert_int_equal(alive(&web), 10);
}

WATCHING(test_flows_stay_alive_when_members_change)
{
	struct oxp_key key = tcp_key(VIP, 80);
	struct oxp_member members[2];

	open_flows(0, 10);
	make_members(members, 2, 0, 0);
	set_service(node, &key, members, 2);
	assert_int_equal(alive(&web), 10);
}

TEST(test_ageing_slots_starts_watching)
{
	assert_int_equal(share(), 0);
	open_flows(0, 10);
	assert_int_equal(alive(&web), 0);
	assert_ok(oxp_slots_age(node, error));
	assert_int_equal(share(), 64);
	open_flows(0, 10);
	assert_int_equal(alive(&web), 10);
}

RUN_TESTS(enter_namespace, NULL)
