// SPDX-License-Identifier: Apache-2.0
/*
 * States of NAT flows: transitions by packets of both directions, time-outs,
 * and counters.
 */
#include <errno.h>

#include "nat_fixture.h"

#define TCP_IDLE 7440 /* s, unless a service sets another */
#define UDP_IDLE 300
#define TCP_FIN_ALONE 1 /* acknowledges nothing */
/* Margin below a time-out: the test itself takes time. */
#define SHORT_OF 20

static uint32_t state_of(const struct nat_flow *flow)
{
	return nat_state_of(flow->state);
}

/* Without packets the flow lives nearly this long, and no longer. */
static void expect_timeout(struct nat_flow *flow, uint32_t seconds)
{
	uint32_t before = flow->state;

	silent_for(flow, seconds - SHORT_OF);
	age();
	assert_int_equal(flow->state, before);
	silent_for(flow, seconds + 1);
	age();
	assert_int_equal(flow->state, NAT_FREE);
	assert_int_equal(flows_of(OURS), 0);
	assert_int_equal(service_of(&ours).active_flows, 0);
}

NAT_TEST(test_flow_is_established_once_both_have_sent)
{
	struct nat_flow *flow = open_flow(0, &ours);

	assert_int_equal(state_of(flow), NAT_HALF_OPEN);
	/* neither by what the client sends alone nor repeats */
	assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
	assert_int_equal(state_of(flow), NAT_HALF_OPEN);
	assert_int_equal(from_member(flow, 0, SYN_ACK), XDP_TX);
	assert_int_equal(from_client(0, &ours, SYN), XDP_TX);
	assert_int_equal(state_of(flow), NAT_HALF_OPEN);
	assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
	assert_int_equal(state_of(flow), NAT_ESTABLISHED);
	assert_int_equal(service_of(&ours).active_flows, 1);
}

NAT_TEST(test_established_flows_end_after_the_idle_timeout)
{
	expect_timeout(establish(0, &ours), TCP_IDLE);
	expect_timeout(establish(0, &ours_udp), UDP_IDLE);
}

NAT_TEST(test_packets_of_both_directions_renew_a_flow)
{
	struct nat_flow *flow = establish(0, &ours);

	silent_for(flow, TCP_IDLE + 1);
	assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
	age();
	assert_int_equal(state_of(flow), NAT_ESTABLISHED);
	silent_for(flow, TCP_IDLE + 1);
	assert_int_equal(from_member(flow, 0, ACK), XDP_TX);
	age();
	expect_alive(0, &ours);
}

static void expect_closed_by_fins(struct nat_flow *flow)
{
	uint32_t seen;

	assert_int_equal(state_of(flow), NAT_TIME_WAIT);
	assert_int_equal(service_of(&ours).active_flows, 0);
	assert_int_equal(flows_of(OURS), 1);
	silent_for(flow, NAT_TIME_WAIT_TIME - SHORT_OF);
	seen = flow->seen;
	/* the last ACK, and repetitions */
	assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
	assert_int_equal(from_member(flow, 0, FIN), XDP_TX);
	assert_int_equal(flow->seen, seen);
	expect_timeout(flow, NAT_TIME_WAIT_TIME);
}

NAT_TEST(test_fins_of_both_end_a_flow)
{
	struct nat_flow *flow = establish(0, &ours);

	assert_int_equal(from_client(0, &ours, FIN), XDP_TX);
	assert_int_equal(from_member(flow, 0, FIN), XDP_TX);
	expect_closed_by_fins(flow);
	flow = establish(0, &ours);
	assert_int_equal(from_member(flow, 0, FIN), XDP_TX);
	assert_int_equal(from_client(0, &ours, FIN), XDP_TX);
	expect_closed_by_fins(flow);
}

/* Later packets renew it, in case the RST was forged. */
static void expect_reset(struct nat_flow *flow)
{
	assert_int_equal(state_of(flow), NAT_TIME_WAIT);
	assert_int_equal(service_of(&ours).active_flows, 0);
	silent_for(flow, NAT_TIME_WAIT_TIME + 1);
	assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
	age();
	assert_int_equal(state_of(flow), NAT_TIME_WAIT);
	expect_timeout(flow, NAT_TIME_WAIT_TIME);
}

NAT_TEST(test_reset_by_either_side_ends_a_flow)
{
	struct nat_flow *flow = establish(0, &ours);

	assert_int_equal(from_client(0, &ours, RST), XDP_TX);
	expect_reset(flow);
	flow = establish(0, &ours);
	assert_int_equal(from_member(flow, 0, RST), XDP_TX);
	expect_reset(flow);
}

NAT_TEST(test_reset_ends_a_half_open_flow)
{
	struct nat_flow *flow = open_flow(0, &ours);

	assert_int_equal(from_member(flow, 0, RST | ACK), XDP_TX);
	expect_reset(flow);
}

/* For example because its sequence number was wrong. */
NAT_TEST(test_a_flow_whose_ends_go_on_was_not_reset)
{
	struct nat_flow *flow = establish(0, &ours);

	for (int i = 0; i < 2; i++) {
		assert_int_equal(i ? from_member(flow, 0, RST)
				   : from_client(0, &ours, RST),
				 XDP_TX);
		assert_int_equal(from_member(flow, 0, ACK), XDP_TX);
		assert_int_equal(from_member(flow, 0, ACK), XDP_TX);
		assert_int_equal(state_of(flow), NAT_TIME_WAIT);
		/* another one, in answer to another packet */
		assert_int_equal(from_client(0, &ours, RST), XDP_TX);
		assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
		assert_int_equal(state_of(flow), NAT_TIME_WAIT);
		assert_int_equal(from_member(flow, 0, ACK), XDP_TX);
		assert_int_equal(service_of(&ours).active_flows, 1);
		expect_alive(0, &ours);
	}
	expect_timeout(flow, TCP_IDLE);
}

/* RFC 6191: the member decides whether it is too early. */
NAT_TEST(test_client_may_reopen_from_the_same_port)
{
	struct nat_flow *flow = establish(0, &ours);

	assert_int_equal(from_member(flow, 0, FIN), XDP_TX);
	assert_int_equal(from_client(0, &ours, FIN), XDP_TX);
	assert_int_equal(from_client(0, &ours, SYN), XDP_TX);
	assert_ptr_equal(find_flow(0, &ours), flow);
	assert_int_equal(state_of(flow), NAT_HALF_OPEN);
	assert_int_equal(flow->state & NAT_FIN, 0);
	assert_int_equal(flows_of(OURS), 1);
	assert_int_equal(service_of(&ours).active_flows, 1);
	assert_int_equal(from_member(flow, 0, SYN_ACK), XDP_TX);
	assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
	expect_alive(0, &ours);
	assert_int_equal(service_of(&ours).counters.flows, 2);
}

NAT_TEST(test_only_the_member_of_the_flow_answers)
{
	struct nat_flow other = *establish(0, &ours), *flow;
	const struct variation with = {.tcp_flags = RST};
	struct flow forged = {MEMBER, POOL, 8081, 0, IPPROTO_TCP};
	struct frame frame;

	flow = find_flow(0, &ours);
	forged.destination_port = flow - pool_table();
	make_frame(&frame, &forged, 0, &with);
	expect_dropped(&frame, OXP_DROP_NO_NAT_FLOW);
	forged.source = "10.1.0.2";
	forged.source_port = 8080;
	make_frame(&frame, &forged, 0, &with);
	expect_dropped(&frame, OXP_DROP_NO_NAT_FLOW);
	forged.source = MEMBER;
	forged.protocol = IPPROTO_UDP;
	make_frame(&frame, &forged, 0, &with);
	expect_dropped(&frame, OXP_DROP_NO_NAT_FLOW);
	assert_int_equal(flow->state, other.state);
}

NAT_TEST(test_packets_of_both_directions_are_counted)
{
	struct nat_flow *flow = establish(0, &ours);
	struct oxp_service service;

	for (int i = 0; i < 10; i++)
		assert_int_equal(from_client(0, &ours, ACK), XDP_TX);
	for (int i = 0; i < 100; i++)
		assert_int_equal(from_member(flow, 1000, ACK), XDP_TX);
	open_flow(1, &ours);
	assert_int_equal(from_client(2, &ours, RST), XDP_DROP);
	service = service_of(&ours);
	/* SYN, ACK, ten more, another SYN; 40 bytes each */
	assert_int_equal(service.counters.packets, 13);
	assert_int_equal(service.counters.bytes, 13 * 40);
	assert_int_equal(service.counters.flows, 2);
	assert_int_equal(service.reply_packets, 101);
	assert_int_equal(service.reply_bytes, 40 + 100 * 1040);
	assert_int_equal(service.active_flows, 2);
	assert_int_equal(service.drops, 1);
	assert_int_equal(service_of(&theirs).counters.packets, 0);
	assert_int_equal(service_of(&theirs).active_flows, 0);
}

/* Packets that open nothing take no port, however many there are. */
NAT_TEST(test_unknown_connections_are_reset)
{
	struct nat_flow *flow;

	for (uint32_t client = 0; client < 10; client++)
		assert_int_equal(from_client(client, &ours, ACK), XDP_TX);
	assert_int_equal(from_client(0, &ours, FIN), XDP_TX);
	assert_int_equal(outcome(OXP_SENT_RESET).packets, 11);
	assert_int_equal(from_client(0, &ours, RST | ACK), XDP_DROP);
	assert_int_equal(from_client(0, &ours, TCP_FIN_ALONE), XDP_DROP);
	assert_int_equal(outcome(OXP_DROP_NO_NAT_FLOW).packets, 2);
	assert_int_equal(flows_of(OURS), 0);
	assert_int_equal(service_of(&ours).active_flows, 0);
	assert_int_equal(service_of(&ours).drops, 2);
	/* new flows are not affected */
	flow = establish(0, &ours);
	assert_int_equal(state_of(flow), NAT_ESTABLISHED);
}

static void set_limit(uint32_t limit, uint32_t flags)
{
	const struct oxp_service_settings settings = {
		.flags = flags,
		.nat_group = OURS,
		.connection_limit = limit,
	};

	set_nat_as(&ours, settings, 8080);
}

static void expect_refused(uint32_t client)
{
	uint64_t before = outcome(OXP_DROP_CONNECTION_LIMIT).packets;

	assert_int_equal(from_client(client, &ours, SYN), XDP_DROP);
	assert_int_equal(outcome(OXP_DROP_CONNECTION_LIMIT).packets,
			 before + 1);
}

NAT_TEST(test_service_has_as_many_connections_as_its_limit)
{
	struct nat_flow *first;

	set_limit(3, 0);
	first = establish(0, &ours);
	establish(1, &ours);
	open_flow(2, &ours);
	expect_refused(3);
	assert_null(find_flow(3, &ours));
	assert_int_equal(service_of(&ours).active_flows, 3);
	assert_int_equal(service_of(&ours).open_connections, 3);
	assert_int_equal(service_of(&ours).drops, 1);
	/* a repeated SYN does not count again */
	assert_int_equal(from_client(2, &ours, SYN), XDP_TX);
	/* the other service has no limit */
	establish(3, &theirs);
	assert_int_equal(from_client(0, &ours, RST), XDP_TX);
	establish(3, &ours);
	/* not even with a port it still has */
	expect_refused(0);
	assert_int_equal(state_of(first), NAT_TIME_WAIT);
	set_limit(4, 0);
	assert_int_equal(from_client(0, &ours, SYN), XDP_TX);
	assert_ptr_equal(find_flow(0, &ours), first);
	assert_int_equal(service_of(&ours).active_flows, 4);
	expect_refused(4);
}

NAT_TEST(test_connections_beyond_the_limit_are_reset)
{
	set_limit(1, OXP_SERVICE_RESET);
	establish(0, &ours);
	assert_int_equal(from_client(1, &ours, SYN), XDP_TX);
	assert_int_equal(outcome(OXP_SENT_RESET).packets, 1);
	assert_null(find_flow(1, &ours));
	assert_int_equal(service_of(&ours).active_flows, 1);
	expect_alive(0, &ours);
}

/* With one direction only, forged packets would count as connections. */
NAT_TEST(test_a_limit_is_for_tcp_with_nat)
{
	struct oxp_service_settings settings = {.slots = TEST_SLOTS,
						.connection_limit = 3};
	struct oxp_key tcp = tcp_key(VIP, 82), udp = udp_key(VIP, 82);
	struct oxp_member member;
	uint8_t changed;

	make_members(&member, 1, 0, 0);
	assert_int_equal(oxp_service_set(node, &tcp, &settings, &member, 1,
					 &changed, error),
			 -EINVAL);
	assert_non_null(strstr(error, "without NAT"));
	settings.flags = OXP_SERVICE_NAT;
	assert_ok(oxp_service_set(node, &tcp, &settings, &member, 1, &changed,
				  error));
	assert_int_equal(oxp_service_set(node, &udp, &settings, &member, 1,
					 &changed, error),
			 -EPROTONOSUPPORT);
}

NAT_TEST(test_limit_is_removed_with_its_service)
{
	struct oxp_key key = tcp_key(VIP, 80);

	set_limit(1, 0);
	assert_int_equal(oxp_services_delete(node, &key, 1, error), 1);
	set_nat(&ours, OURS, 0, 8080);
	assert_int_equal(service_of(&ours).settings.connection_limit, 0);
	establish(0, &ours);
	establish(1, &ours);
	assert_int_equal(service_of(&ours).open_connections, 0);
}

RUN_TESTS(enter_namespace, NULL)
