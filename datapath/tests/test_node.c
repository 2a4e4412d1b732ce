// SPDX-License-Identifier: Apache-2.0
/* Backup members, draining, networks, uplinks and ageing. */
#include "harness.h"

static struct oxp_node *node;
static struct oxp_key http;

static int set_up(void **state)
{
	(void)state;
	node = fresh_state();
	http = tcp_key(VIP, 80);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (oxp_test_verify(node, error))
		fail_msg("verify: %s", error);
	oxp_close(node);
	return 0;
}

static struct oxp_service show(void)
{
	struct oxp_service service;

	assert_int_equal(oxp_service_get(node, &http, &service, error), 0);
	return service;
}

static void test_backups_take_over_and_drained_members_keep_flows(void **state)
{
	struct oxp_member members[3];

	(void)state;
	make_members(members, 3, 0, 0);
	members[2].backup = 1;
	set_service(node, &http, members, 3);
	assert_int_equal(show().enabled, 2);
	assert_int_equal(show().open_slots, 0);
	members[0].weight = 0;
	set_service(node, &http, members, 3);
	assert_int_equal(show().enabled, 1);
	assert_true(show().open_slots > 0);
	members[1].admin_up = 0;
	set_service(node, &http, members, 3);
	assert_int_equal(show().enabled, 1); /* the backup member */
	members[2].weight = 0;
	set_service(node, &http, members, 3);
	assert_int_equal(show().enabled, 0);
	assert_true(show().open_slots > 0); /* old flows go on */
}

static void test_open_slots_close_after_the_idle_timeout(void **state)
{
	struct oxp_member members[4];

	(void)state;
	make_members(members, 4, 0, 0);
	set_service(node, &http, members, 3);
	set_service(node, &http, members, 4);
	assert_true(show().open_slots > 0);
	oxp_slots_age(node, error);
	for (int i = 0; i < 8; i++) {
		node->config->ticked -= 350000 / 8;
		assert_true(oxp_slots_age(node, error) > 0);
	}
	/* too early for the next one */
	assert_true(oxp_slots_age(node, error) > 0);
	node->config->ticked -= 350000 / 8;
	assert_int_equal(oxp_slots_age(node, error), 0);
	assert_int_equal(show().open_slots, 0);
}

static void test_allowed_networks_are_those_set_last(void **state)
{
	struct oxp_network networks[2] = {{address("10.1.2.3"), 16},
					  {address("2001:db8::1"), 32}};
	struct oxp_service_settings settings = {
		.slots = TEST_SLOTS, .allowed = networks, .allowed_count = 2};
	struct oxp_network out[2];
	struct oxp_member member;

	(void)state;
	make_members(&member, 1, 0, 7);
	for (int round = 0; round < 4; round++) {
		struct oxp_health_result result = {7, round & 1};

		networks[0].length = 16 + round;
		set_service_as(node, &http, &settings, &member, 1);
		oxp_health_apply(node, &result, 1, error);
		assert_int_equal(oxp_networks_list(node, &http, out, 2, error),
				 2);
		assert_int_equal(out[0].length + out[1].length, 48 + round);
	}
	set_service(node, &http, &member, 1);
	assert_int_equal(oxp_networks_list(node, &http, out, 2, error), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_backups_take_over_and_drained_members_keep_flows),
		TEST(test_open_slots_close_after_the_idle_timeout),
		TEST(test_allowed_networks_are_those_set_last),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
