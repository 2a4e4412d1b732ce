// SPDX-License-Identifier: Apache-2.0
/*
 * What packets leave for later ones is in tables for all services of a node:
 * where later fragments go, and how much sources may open. Clients of one VIP,
 * service or project must not cost another one its entries.
 */
#include "nat_fixture.h"
#include "older_sets.h"

#define GREEDY_VIP "192.0.2.2"
#define FIRST 0x2000
#define LATER 0x0064
#define DATAGRAMS 32768 /* remembered by a node */
#define PAIRS 65536     /* of client and service, known to a node */
#define FEW 100
#define SOURCES 20

static const struct flow victim = {CLIENT, VIP, 40000, 5353, IPPROTO_UDP};
static const struct flow greedy = {CLIENT, GREEDY_VIP, 40000, 5353,
				   IPPROTO_UDP};

/* Fragments without a known first one go to port 53, and are counted. */
static int set_up_vips(void **state)
{
	static const char *const vips[] = {VIP, GREEDY_VIP};
	const struct oxp_service_settings settings = {};

	(void)state;
	open_empty_node();
	for (int i = 0; i < 2; i++) {
		set_with_one_member(node, udp_key(vips[i], 53), settings);
		set_with_one_member(node, udp_key(vips[i], 5353), settings);
	}
	return 0;
}

static uint32_t send_fragment(const struct flow *flow, uint16_t id,
			      uint16_t fragment)
{
	struct variation variation = {
		.fragment = fragment, .id = id, .tcp_flags = ACK};
	struct frame frame;

	make_frame(&frame, flow, 64, &variation);
	return run(program, &frame, NULL);
}

static void send_first(const struct flow *flow, uint32_t from, uint32_t count)
{
	struct flow some = *flow;

	for (uint32_t i = from; i < from + count; i++) {
		some.source = i >> 16 ? "198.51.100.8" : flow->source;
		assert_int_equal(send_fragment(&some, i, FIRST), XDP_TX);
	}
}

/* Returns how many later ones follow the first, for services without NAT. */
static uint32_t count_followed(const struct flow *flow, uint32_t from,
			       uint32_t count)
{
	uint64_t guessed = outcome(OXP_FRAGMENT_GUESSED).packets;
	struct flow some = *flow;

	for (uint32_t i = from; i < from + count; i++) {
		some.source = i >> 16 ? "198.51.100.8" : flow->source;
		assert_int_equal(send_fragment(&some, i, LATER), XDP_TX);
	}
	return count - (outcome(OXP_FRAGMENT_GUESSED).packets - guessed);
}

#define OF_VIPS(name) TEST_WITH(name, set_up_vips, tear_down)

OF_VIPS(test_another_vip_costs_nothing_that_is_there)
{
	send_first(&victim, 0, FEW);
	send_first(&greedy, 0, 2 * DATAGRAMS);
	assert_int_equal(count_followed(&victim, 0, FEW), FEW);
}

OF_VIPS(test_another_vip_that_filled_it_gives_way)
{
	send_first(&greedy, 0, 2 * DATAGRAMS);
	send_first(&victim, 0, FEW);
	send_first(&greedy, 0, 2 * DATAGRAMS);
	assert_int_equal(count_followed(&victim, 0, FEW), FEW);
}

/* A VIP that fills the table itself loses its oldest ones. */
OF_VIPS(test_vip_loses_its_oldest_fragments)
{
	send_first(&greedy, 0, 4 * DATAGRAMS);
	assert_in_range(count_followed(&greedy, 4 * DATAGRAMS - FEW, FEW),
			FEW * 9 / 10, FEW);
	assert_in_range(count_followed(&greedy, 0, FEW), 0, FEW / 10);
}

/* RFC 1122, section 3.3.2: reassembly of a datagram ends after 120 s. */
OF_VIPS(test_what_is_old_is_not_followed)
{
	int map = node->map[MAP_FRAGMENTS];

	send_first(&victim, 0, FEW);
	make_older(map, FRAGMENT_SETS, 110000);
	assert_int_equal(count_followed(&victim, 0, FEW), FEW);
	make_older(map, FRAGMENT_SETS, 10000);
	assert_int_equal(count_followed(&victim, 0, FEW), 0);
}

/* The fragments of both projects' flows go to one VIP. */
TEST_WITH(test_another_project_with_nat_costs_nothing, set_up_nat, tear_down)
{
	struct variation opening = {.tcp_flags = SYN};
	uint32_t passed = 0;
	struct frame syn;

	make_frame(&syn, &ours, 0, &opening);
	assert_int_equal(run(program, &syn, NULL), XDP_TX);
	make_frame(&syn, &theirs, 0, &opening);
	assert_int_equal(run(program, &syn, NULL), XDP_TX);
	send_first(&ours, 0, FEW);
	for (uint32_t i = 0; i < 2 * DATAGRAMS - FEW; i++)
		send_fragment(&theirs, FEW + i, FIRST);
	for (uint32_t i = 0; i < FEW; i++)
		passed += send_fragment(&ours, i, LATER) == XDP_TX;
	assert_int_equal(passed, FEW);
	assert_int_equal(send_fragment(&ours, FEW - 1, LATER), XDP_TX);
}

/* One flow per client. */
static void open_flows(const struct flow *to, uint32_t clients)
{
	for (uint32_t i = 0; i < clients; i++) {
		struct flow flow = *to;
		struct frame frame;

		flow.source = client_text(i);
		make_frame(&frame, &flow, 0, NULL);
		assert_int_equal(run(program, &frame, NULL), XDP_TX);
	}
}

/* Flows that the client may still open at the victim's service. */
static uint64_t tokens_of(struct oxp_simulation *simulation, uint32_t client)
{
	struct oxp_decision decisions[OXP_DECISIONS_MAX];
	uint64_t outcomes[OXP_OUTCOMES];
	struct flow flow = victim;
	struct oxp_frame opening;
	struct frame frame;
	int count;

	flow.source = client_text(client);
	make_frame(&frame, &flow, 0, NULL);
	opening =
		(struct oxp_frame){.data = frame.data, .length = frame.length};
	assert_int_equal(
		oxp_simulation_run(simulation, &opening, outcomes, error), 0);
	count = oxp_simulation_decisions_get(simulation, decisions, error);
	while (count-- > 0)
		if (decisions[count].kind == OXP_DECIDED_RATE)
			return decisions[count].argument[0] / 1024;
	fail_msg("no budget was asked for");
	return 0;
}

/* Budgets that sources have used up stay so, whatever another service receives:
 * a forgotten source could use its full budget again. */
OF_VIPS(test_another_services_sources_lift_no_limit)
{
	const struct oxp_service_settings settings = {.new_flow_rate = 1,
						      .new_flow_burst = 600};
	struct oxp_simulation *simulation;
	uint8_t tag[8];

	/* too slow to matter during the test */
	set_with_one_member(node, key_of(&victim), settings);
	set_with_one_member(node, key_of(&greedy), settings);
	for (int i = 0; i < 500; i++)
		open_flows(&victim, SOURCES);
	open_flows(&greedy, 2 * PAIRS);
	assert_ok(oxp_simulation_open(node, &simulation, tag, error));
	for (uint32_t i = 0; i < SOURCES; i++)
		assert_in_range(tokens_of(simulation, i), 100, 400);
	assert_int_equal(tokens_of(simulation, SOURCES), 600);
	oxp_simulation_close(simulation);
}

RUN_TESTS(enter_namespace, NULL)
