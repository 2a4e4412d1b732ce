// SPDX-License-Identifier: Apache-2.0
/*
 * Flows keep their member: 100,000 of them, while members come, go, fail,
 * recover, drain and change weight.
 *
 * The rule: a flow stays with its member for as long as this member can keep
 * flows, whatever happens to others. Time passes by moving the time of the last
 * oxp_slots_age() back.
 */
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "batch.h"
#include "changing_members.h"
#include "remembered.h"

#define FLOWS 100000
#define UDP_FLOWS 20000
#define WAVES 24
#define SYN 2
#define ACK 16

static struct client flows[FLOWS];
/* Quick runs use a tenth of them. */
static uint32_t some = FLOWS, some_udp = UDP_FLOWS;
static uint32_t next_client; /* never reused */

static struct oxp_node *open_node(const char *name)
{
	return open_sized(name, (struct oxp_options){.services_max = 4,
						     .members_max = 256});
}

/* Time ------------------------------------------------------------------ */

static uint32_t pass_time(struct oxp_node *node, uint32_t milliseconds)
{
	int open;

	if (!node->config->ticked)
		assert_true(oxp_slots_age(node, error) >= 0);
	node->config->ticked -= milliseconds;
	open = oxp_slots_age(node, error);
	assert_true(open >= 0);
	return open;
}

static void close_slots(struct oxp_node *node)
{
	for (int i = 0; i < 12; i++)
		pass_time(node, IDLE * 1000 / 8 + 1000);
	assert_int_equal(pass_time(node, 1000), 0);
}

/* Packets --------------------------------------------------------------- */

/* SYNs from spoofed sources; their member does not matter. */
static void flood(struct world *world, uint32_t count)
{
	static struct batch batch;
	struct client spoofed = {};
	uint8_t out[BATCH];

	while (count--) {
		spoofed.source = 0x0b000000 + random_below(1 << 26);
		spoofed.port = random_below(65536);
		batch_add(&batch, &world->key, &spoofed, SYN);
		if (batch.count == BATCH || !count)
			batch_run(&batch, world->node, out);
	}
}

/* Open flows[0..count) that have no member. Returns for how many SYN and ACK
 * went to different members. Only flows that are not remembered go to a
 * draining member: to the one that their next packets reach. */
static uint32_t open_flows(struct world *world, uint32_t count)
{
	static struct batch batch;
	uint8_t by_syn[BATCH], by_ack[BATCH];
	struct client *opened[BATCH];
	uint64_t full = not_remembered(world->node);
	uint32_t next = 0, failed = 0, draining = 0, done;

	while (next < count) {
		for (; next < count && batch.count < BATCH; next++) {
			struct client *flow = &flows[next];

			if (flow->member)
				continue;
			flow->source = 0xc6330000 + (next_client >> 16);
			flow->port = next_client++;
			flow->since = world->wave;
			opened[batch.count] = flow;
			batch_add(&batch, &world->key, flow, SYN);
		}
		done = batch.count;
		if (!done)
			break;
		batch_run(&batch, world->node, by_syn);
		for (uint32_t i = 0; i < done; i++)
			batch_add(&batch, &world->key, opened[i], ACK);
		batch_run(&batch, world->node, by_ack);
		for (uint32_t i = 0; i < done; i++) {
			int member = by_syn[i] - 1;

			assert_true(world_keeps(world, member));
			/* UDP does not show which flows are new */
			if (world->key.protocol == IPPROTO_TCP)
				draining += !world->member[member].weight;
			opened[i]->member = by_ack[i];
			failed += by_ack[i] != by_syn[i];
		}
	}
	assert_true(draining <= not_remembered(world->node) - full);
	return failed;
}

/* Send a packet of every flow. Returns how many changed from a member that
 * could keep them. Flows of lost members are ended. */
static uint32_t send_all(struct world *world, uint32_t count, uint32_t spoofed)
{
	static struct batch batch;
	uint8_t now[BATCH];
	uint32_t moved = 0, next = 0;

	while (next < count) {
		uint32_t first = next;

		for (; next < count && batch.count < BATCH; next++)
			batch_add(&batch, &world->key, &flows[next], ACK);
		batch_run(&batch, world->node, now);
		for (uint32_t i = first; i < next; i++) {
			struct client *flow = &flows[i];
			bool stays =
				world->lost[flow->member - 1] <= flow->since;

			if (!stays)
				flow->member = 0;
			else if (flow->member != now[i - first])
				moved++;
		}
		if (spoofed)
			flood(world, spoofed * (next - first));
	}
	return moved;
}

/* Tests ----------------------------------------------------------------- */

/* Begin with all members up, and without flows. */
static void begin(struct world *world, struct oxp_node *node,
		  struct oxp_key key, uint64_t seed)
{
	random_state = seed;
	memset(flows, 0, sizeof(flows));
	world_begin(world, node, key);
}

static void run_waves(uint32_t spoofed)
{
	struct oxp_node *node = open_node("one");
	uint32_t failed = 0, ended = 0;
	struct world world;

	begin(&world, node, tcp_key(VIP, 80), 1 + spoofed);
	assert_int_equal(open_flows(&world, some), 0);
	while (world.wave <= WAVES) {
		world_next_wave(&world, 1 + random_below(4));
		assert_int_equal(send_all(&world, some, spoofed), 0);
		for (uint32_t i = 0; i < some; i++)
			ended += !flows[i].member;
		failed += open_flows(&world, some);
		pass_time(node, IDLE * 1000 / 8 + 1000);
	}
	print_message("%u flows ended with their members and started over, "
		      "%llu were not remembered\n",
		      ended, (unsigned long long)not_remembered(node));
	/* the waves had an effect, and slots closed in between */
	assert_true(ended > some / 4);
	assert_int_equal(failed, 0);
	if (!spoofed)
		assert_int_equal(not_remembered(node), 0);
	close_slots(node);
	remove_state(node);
}

PLAIN_TEST(test_flows_stay_while_members_change)
{
	run_waves(0);
}

PLAIN_TEST(test_flows_stay_under_a_flood_of_spoofed_sources)
{
	run_waves(2);
}

/* Proof that the test would notice: without `before` and `flows` there is only
 * a table for each state of the members. */
PLAIN_TEST(test_flows_move_where_nothing_is_remembered)
{
	struct oxp_node *node = open_node("one");
	struct world world;

	begin(&world, node, tcp_key(VIP, 80), 5);
	assert_int_equal(open_flows(&world, some), 0);
	world.wave++;
	for (int i = 0; i < 4; i++)
		world.member[i].weight = 5;
	world_configure(&world);
	close_slots(node);
	assert_true(send_all(&world, some, 0) > some / 20);
	remove_state(node);
}

/* A CPU may be slightly behind another one or the library. */
PLAIN_TEST(test_flows_of_a_unit_ahead_keep_their_member)
{
	struct oxp_node *node = open_node("one");
	struct world world;

	begin(&world, node, tcp_key(VIP, 80), 11);
	assert_int_equal(open_flows(&world, some), 0);
	world_next_wave(&world, 6);
	send_all(&world, some, 0);
	assert_int_equal(open_flows(&world, some), 0);
	assert_true(refresh_later(node, 1) > 0);
	assert_int_equal(send_all(&world, some, 0), 0);
	/* expired flows do not */
	refresh_later(node, -(IDLE + 3));
	assert_true(send_all(&world, some, 0) > 0);
	close_slots(node);
	remove_state(node);
}

/* Packets read the clock once in some ticks, but not never. */
PLAIN_TEST(test_the_time_goes_on)
{
	uint64_t made = coarse_time() >> 30;
	struct oxp_node *node = open_node("one");
	const struct timespec ticks = {.tv_nsec = 200000000};
	struct world world;
	/* written by packets, through another mapping */
	const volatile __u64 *asked = &node->config->last_asked;
	uint64_t before;

	begin(&world, node, tcp_key(VIP, 80), 13);
	/* set when the node was created */
	assert_in_range(*asked, made, coarse_time() >> 30);
	open_flows(&world, some_udp);
	world_next_wave(&world, 6);
	send_all(&world, some_udp, 0);
	before = *asked;
	assert_int_not_equal(before, 0);
	nanosleep(&ticks, NULL);
	send_all(&world, some_udp, 0);
	assert_int_not_equal(*asked, before);
	assert_in_range((__u32)*asked, (__u32)before, coarse_time() >> 30);
	close_slots(node);
	remove_state(node);
}

PLAIN_TEST(test_flows_sent_to_another_node_keep_their_member)
{
	struct oxp_node *one = open_node("one");
	struct oxp_node *two = open_node("two");
	struct world world, other;

	begin(&world, one, tcp_key(VIP, 80), 7);
	world_begin(&other, two, tcp_key(VIP, 80));
	for (int i = 0; i < 3; i++) {
		/* one node sees each event, the other only the result, health
		 * first */
		open_flows(&world, some);
		world_next_wave(&world, 6);
		send_all(&world, some, 0);
		memcpy(other.member, world.member, sizeof(world.member));
		memcpy(other.present, world.present, sizeof(world.present));
		memcpy(other.up, world.up, sizeof(world.up));
		world_report_health(&other);
		world_configure(&other);
		world_report_health(&other);
		close_slots(one);
		close_slots(two);
		/* flows of the steady state, sent to the other node */
		memset(flows, 0, sizeof(flows));
		world.wave++;
		assert_int_equal(open_flows(&world, some), 0);
		memcpy(other.lost, world.lost, sizeof(world.lost));
		assert_int_equal(send_all(&other, some, 0), 0);
		memset(flows, 0, sizeof(flows));
	}
	remove_state(one);
	remove_state(two);
}

/* UDP does not show when a flow begins: one that sends during learning counts
 * as old and stays for as long as it keeps sending. */
PLAIN_TEST(test_udp_flows_that_go_on_sending_stay)
{
	struct oxp_node *node = open_node("one");
	struct world world;

	begin(&world, node, udp_key(VIP, 53), 9);
	assert_int_equal(open_flows(&world, some_udp), 0);
	for (int wave = 0; wave < 6; wave++) {
		world_next_wave(&world, 2);
		/* beyond the learning time, which is the idle timeout */
		for (int i = 0; i < 12; i++) {
			assert_int_equal(send_all(&world, some_udp, 0), 0);
			open_flows(&world, some_udp);
			pass_time(node, IDLE * 1000 / 8 + 1000);
		}
	}
	close_slots(node);
	remove_state(node);
}

int main(void)
{
	if (is_quick()) {
		some = FLOWS / 10;
		some_udp = UDP_FLOWS / 10;
	}
	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
