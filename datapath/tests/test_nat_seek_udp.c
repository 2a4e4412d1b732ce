// SPDX-License-Identifier: Apache-2.0
/* How long owners of unknown UDP flows are sought among the peers. */
#include <errno.h>

#include "nat_fixture.h"

static void set_peers(void)
{
	const struct oxp_address peers[] = {address(POOL),
					    address("192.0.2.1")};

	assert_ok(oxp_nat_peers_set(node, peers, 2, error));
}

static void seek(uint32_t seconds)
{
	assert_ok(oxp_nat_seek_udp(node, seconds, error));
}

static uint32_t seconds_left(void)
{
	uint32_t seconds = UINT32_MAX;

	assert_ok(oxp_nat_seek_udp_left(node, &seconds, error));
	return seconds;
}

/* The test itself takes time, with emulation a lot. */
#define PATIENCE 900

static void expect_about(uint32_t seconds)
{
	assert_in_range(seconds_left(), seconds - PATIENCE, seconds);
}

NAT_TEST(test_search_ends_by_itself)
{
	assert_int_equal(seconds_left(), 0);
	seek(3000);
	expect_about(3000);
	node->nat->seek_udp_until -= 2000;
	expect_about(1000);
	node->nat->seek_udp_until = nat_now();
	assert_int_equal(seconds_left(), 0);
	node->nat->seek_udp_until = nat_now() - 1;
	assert_int_equal(seconds_left(), 0);
}

NAT_TEST(test_new_time_replaces_the_old_one)
{
	seek(OXP_NAT_SEEK_UDP_MAX);
	expect_about(OXP_NAT_SEEK_UDP_MAX);
	seek(1000);
	expect_about(1000);
	seek(0);
	assert_int_equal(seconds_left(), 0);
}

NAT_TEST(test_too_long_time_is_refused)
{
	seek(1000);
	assert_int_equal(oxp_nat_seek_udp(node, 86401, error), -EINVAL);
	assert_non_null(strstr(error, "86401 s: wanted is 86400 at most"));
	expect_about(1000);
}

NAT_TEST(test_search_outlives_pools_and_peers)
{
	seek(1000);
	set_peers();
	expect_about(1000);
	assert_ok(oxp_nat_peers_set(node, NULL, 0, error));
	assert_ok(oxp_nat_pools_set(node, NULL, 0, error));
	expect_about(1000);
}

/* If the second ends before the packet arrives, try again in the next one. */
static void expect_outcome(const struct flow *to, uint8_t flags,
			   uint16_t others, uint16_t datagrams, uint32_t which)
{
	static uint32_t client;
	uint64_t before;
	uint32_t begin;

	do {
		begin = set_scratch((struct nat_scratch){
			.seeks = others, .udp_seeks = datagrams});
		before = outcome(which).packets;
		from_client(++client, to, flags);
	} while (nat_now() != begin);
	assert_int_equal(outcome(which).packets, before + 1);
}

static void expect_begun(uint16_t others, uint16_t datagrams)
{
	static uint32_t client = 1000;
	uint32_t begin;

	do {
		begin = set_scratch((struct nat_scratch){
			.seeks = others, .udp_seeks = datagrams});
		assert_int_equal(from_client(++client, &ours_udp, 0), XDP_TX);
	} while (nat_now() != begin);
	assert_non_null(find_flow(client, &ours_udp));
}

NAT_TEST(test_each_kind_has_its_own_budget)
{
	set_peers();
	seek(1000);
	expect_outcome(&ours_udp, 0, NAT_SEEKS_MAX, NAT_SEEKS_MAX - 1,
		       OXP_NAT_HANDED_ON);
	expect_outcome(&ours, ACK, NAT_SEEKS_MAX - 1, NAT_SEEKS_MAX,
		       OXP_NAT_HANDED_ON);
	expect_outcome(&ours, ACK, NAT_SEEKS_MAX, 0, OXP_DROP_NAT_PEER);
	/* nothing is lost */
	expect_begun(0, NAT_SEEKS_MAX);
}

RUN_TESTS(enter_namespace, NULL)
