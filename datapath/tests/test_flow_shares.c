// SPDX-License-Identifier: Apache-2.0
/*
 * All services of a node share the table of remembered flows: no service may
 * cost another one its flows. Two services have two members each, of which the
 * first one drains, so that its slots are open.
 */
#include <netinet/in.h>

#include "batch.h"
#include "remembered.h"
#include "state.h"

#define PLACES 8192
#define FLOWS 2000
#define IDLE 60 /* seconds */
#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16
#define DRAINED 1 /* last byte of the member's address */
#define OTHER 2

static const uint16_t greedy = 80, victim = 81;

static struct oxp_node *open_node(void)
{
	return open_sized("one", (struct oxp_options){.services_max = 4,
						      .members_max = 64,
						      .flows_max = PLACES});
}

static void set_with_timeout(struct oxp_node *node, uint16_t port,
			     uint16_t idle_timeout_s, bool drains)
{
	struct oxp_service_settings settings = {
		.idle_timeout_s = idle_timeout_s,
	};
	struct oxp_key key = tcp_key(VIP, port);
	struct oxp_member members[2];

	make_members(members, 2, 0, 0);
	members[0].weight = !drains;
	set_service_as(node, &key, &settings, members, 2);
}

/* Half of the flows were at the first member. */
static void begin_to_drain(struct oxp_node *node, uint16_t port)
{
	set_with_timeout(node, port, IDLE, false);
	set_with_timeout(node, port, IDLE, true);
}

static struct client client_of(uint32_t number)
{
	return (struct client){.source = 0xc6330000 + (number >> 14),
			       .port = 1024 + (number & 0x3fff)};
}

/* Send the same packet for each client. members[i], unless NULL: the member
 * that client first + i's packet reached. */
static void send_all(struct oxp_node *node, uint16_t port, uint32_t first,
		     uint32_t count, uint8_t flags, uint8_t *members)
{
	static struct batch batch;
	struct oxp_key key = tcp_key(VIP, port);
	uint8_t out[BATCH];

	for (uint32_t i = 0; i < count; i++) {
		struct client client = client_of(first + i);
		uint32_t place = batch.count;

		batch_add(&batch, &key, &client, flags);
		if (place + 1 < BATCH && i + 1 < count)
			continue;
		batch_run(&batch, node, out);
		if (members)
			memcpy(members + i - place, out, place + 1);
	}
}

/* Open connections of new clients. Returns how many would be reset: SYN and ACK
 * went to different members. */
static uint32_t connect_all(struct oxp_node *node, uint16_t port,
			    uint32_t first, uint32_t count,
			    uint32_t *to_drained)
{
	uint8_t by_syn[BATCH], by_ack[BATCH];
	uint32_t split = 0;

	*to_drained = 0;
	for (uint32_t end = first + count; first < end; first += BATCH) {
		uint32_t some = end - first < BATCH ? end - first : BATCH;

		send_all(node, port, first, some, SYN, by_syn);
		send_all(node, port, first, some, ACK, by_ack);
		for (uint32_t i = 0; i < some; i++) {
			split += by_syn[i] != by_ack[i];
			*to_drained += by_syn[i] == DRAINED;
		}
	}
	return split;
}

/* not_remembered() by service. */
static uint64_t not_remembered_of(struct oxp_node *node, uint16_t port)
{
	struct oxp_key key = tcp_key(VIP, port);
	struct oxp_service service;

	assert_ok(oxp_service_get(node, &key, &service, error));
	return service.flow_table_full;
}

/* Fill the table with live connections. */
static void fill(struct oxp_node *node, uint16_t port)
{
	uint32_t to_drained;

	begin_to_drain(node, port);
	connect_all(node, port, 0, 8 * PLACES, &to_drained);
	assert_int_equal(refresh_later(node, 0), PLACES);
}

PLAIN_TEST(test_table_filled_by_another_service_has_room)
{
	struct oxp_node *node = open_node();
	uint32_t to_drained;

	fill(node, greedy);
	begin_to_drain(node, victim);
	assert_int_equal(connect_all(node, victim, 1 << 20, FLOWS, &to_drained),
			 0);
	/* Each set has four places for them. Two that begin at once in the same
	 * set have to wait for each other. */
	assert_in_range(to_drained, 0, FLOWS / 10);
	remove_state(node);
}

PLAIN_TEST(test_flows_that_are_not_remembered_count_for_their_service)
{
	struct oxp_node *node = open_node();
	struct oxp_key key = tcp_key(VIP, greedy);
	uint32_t to_drained;

	begin_to_drain(node, victim);
	fill(node, greedy);
	connect_all(node, greedy, 1 << 20, FLOWS, &to_drained);
	assert_true(not_remembered_of(node, greedy) >= to_drained);
	assert_int_equal(not_remembered_of(node, greedy), not_remembered(node));
	assert_int_equal(not_remembered_of(node, victim), 0);
	/* the next service at the same place starts at zero */
	assert_int_equal(oxp_services_delete(node, &key, 1, error), 1);
	begin_to_drain(node, greedy);
	assert_int_equal(not_remembered_of(node, greedy), 0);
	remove_state(node);
}

PLAIN_TEST(test_own_flows_beyond_the_table_are_not_remembered)
{
	struct oxp_node *node = open_node();
	uint32_t to_drained;
	uint64_t before;

	fill(node, greedy);
	before = not_remembered(node);
	assert_int_equal(connect_all(node, greedy, 1 << 20, FLOWS, &to_drained),
			 0);
	assert_true(not_remembered(node) > before);
	assert_int_equal(to_drained, not_remembered(node) - before);
	remove_state(node);
}

/* A flood of SYNs to one service costs another one a place per set. */
PLAIN_TEST(test_flood_leaves_flows_of_other_services)
{
	static uint8_t before[PLACES], after[PLACES];
	struct oxp_node *node = open_node();
	uint32_t moved = 0, remembered = 0;

	begin_to_drain(node, greedy);
	connect_all(node, greedy, 0, PLACES / 2, &moved);
	send_all(node, greedy, 0, PLACES / 2, ACK, before);
	begin_to_drain(node, victim);
	send_all(node, victim, 1 << 20, 8 * PLACES, SYN, NULL);
	send_all(node, greedy, 0, PLACES / 2, ACK, after);
	moved = 0;
	for (uint32_t i = 0; i < PLACES / 2; i++) {
		remembered += before[i] == OTHER;
		moved += before[i] != after[i];
	}
	assert_true(remembered > PLACES / 4);
	assert_in_range(moved, 0, PLACES / FLOW_SET_WAYS);
	remove_state(node);
}

PLAIN_TEST(test_ended_connections_give_way)
{
	static const uint8_t ends[] = {FIN | ACK, RST};
	struct oxp_node *node = open_node();
	uint32_t to_drained;
	uint64_t before;

	fill(node, greedy);
	for (int i = 0; i < 2; i++) {
		send_all(node, greedy, i << 20, 8 * PLACES, ends[i], NULL);
		/* acknowledging the member's last data */
		send_all(node, greedy, i << 20, 8 * PLACES, ACK, NULL);
		refresh_later(node, -3);
		before = not_remembered(node);
		connect_all(node, greedy, (i + 1) << 20, PLACES / 4,
			    &to_drained);
		assert_int_equal(not_remembered(node), before);
		assert_int_equal(to_drained, 0);
		connect_all(node, greedy, (i + 1) << 20, 8 * PLACES,
			    &to_drained);
	}
	remove_state(node);
}

/* Anybody can send a RST: a flow that continues long after one is alive. */
PLAIN_TEST(test_flow_that_continues_after_a_reset_stays)
{
	struct oxp_node *node = open_node();
	uint32_t to_drained;
	uint64_t before;

	fill(node, greedy);
	send_all(node, greedy, 0, 8 * PLACES, RST, NULL);
	refresh_later(node, -(FLOW_ENDED_AGE + 2));
	send_all(node, greedy, 0, 8 * PLACES, ACK, NULL);
	refresh_later(node, -3);
	before = not_remembered(node);
	assert_int_equal(connect_all(node, greedy, 1 << 20, FLOWS, &to_drained),
			 0);
	assert_true(to_drained > FLOWS / 4);
	assert_int_equal(to_drained, not_remembered(node) - before);
	remove_state(node);
}

PLAIN_TEST(test_long_timeout_is_removed_with_its_service)
{
	struct oxp_key key = tcp_key(VIP, 82);
	struct oxp_node *node = open_node();
	uint32_t to_drained;
	uint64_t before;

	set_with_timeout(node, 82, 16000, false);
	fill(node, greedy);
	assert_int_equal(oxp_services_delete(node, &key, 1, error), 1);
	assert_true(oxp_slots_age(node, error) >= 0);
	refresh_later(node, -(IDLE + 3));
	begin_to_drain(node, victim);
	before = not_remembered(node);
	connect_all(node, victim, 1 << 20, FLOWS, &to_drained);
	assert_int_equal(not_remembered(node), before);
	assert_int_equal(to_drained, 0);
	remove_state(node);
}

RUN_TESTS(enter_namespace, NULL)
