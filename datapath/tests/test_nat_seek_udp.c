// SPDX-License-Identifier: Apache-2.0
/* For how long datagrams of unknown flows are sought among the peers. */
#include <errno.h>

#include "nat_fixture.h"

static void seek(uint32_t seconds)
{
	if (oxp_nat_seek_udp(node, seconds, error))
		fail_msg("seek: %s", error);
}

static uint32_t left(void)
{
	uint32_t seconds = UINT32_MAX;

	if (oxp_nat_seek_udp_left(node, &seconds, error))
		fail_msg("left: %s", error);
	return seconds;
}

/* The test may take time itself. */
static void expect_about(uint32_t seconds)
{
	assert_in_range(left(), seconds - 5, seconds);
}

static void test_it_ends_by_itself(void **state)
{
	(void)state;
	assert_int_equal(left(), 0);
	seek(300);
	expect_about(300);
	node->nat->seek_udp_until -= 200;
	expect_about(100);
	node->nat->seek_udp_until = nat_now();
	assert_int_equal(left(), 0);
	node->nat->seek_udp_until = nat_now() - 1;
	assert_int_equal(left(), 0);
}

static void test_another_time_takes_its_place(void **state)
{
	(void)state;
	seek(OXP_NAT_TIMEOUT_MAX);
	expect_about(OXP_NAT_TIMEOUT_MAX);
	seek(60);
	expect_about(60);
	seek(0);
	assert_int_equal(left(), 0);
}

static void test_what_is_too_long_is_refused(void **state)
{
	(void)state;
	seek(100);
	assert_int_equal(oxp_nat_seek_udp(node, 16001, error), -EINVAL);
	assert_non_null(strstr(error, "16001 s: wanted is 16000 at most"));
	expect_about(100);
}

static void test_it_stays_with_pools_and_peers(void **state)
{
	(void)state;
	seek(100);
	assert_int_equal(oxp_nat_peers_set(node, NULL, 0, error), 0);
	assert_int_equal(oxp_nat_pools_set(node, NULL, 0, error), 0);
	expect_about(100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NAT_TEST(test_it_ends_by_itself),
		NAT_TEST(test_another_time_takes_its_place),
		NAT_TEST(test_what_is_too_long_is_refused),
		NAT_TEST(test_it_stays_with_pools_and_peers),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
