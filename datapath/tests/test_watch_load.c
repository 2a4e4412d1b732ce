// SPDX-License-Identifier: Apache-2.0
/* Which flows are watched under load, and the resulting figures. */
#include "watch_fixture.h"

WATCHING(test_fewer_flows_are_watched_under_load)
{
	uint64_t before;

	assert_int_equal(share(), 64);
	tick(SECOND, WATCH_RATE / 2);
	assert_int_equal(share(), 64);
	tick(SECOND, 3 * WATCH_RATE);
	assert_int_equal(share(), 16);
	before = live_choices();
	tick(SECOND, 2 * WATCH_RATE);
	assert_int_equal(share(), 8);
	assert_int_equal(live_choices() & ~before, 0);
	tick(SECOND, 1000ULL * WATCH_RATE);
	assert_int_equal(share(), 1);
	/* not before a minute with much less load */
	for (int i = 0; i < 59; i++)
		tick(SECOND, WATCH_RATE / 5);
	assert_int_equal(share(), 1);
	tick(SECOND, WATCH_RATE / 2);
	for (int i = 0; i < 59; i++)
		tick(SECOND, 0);
	assert_int_equal(share(), 1);
	tick(SECOND, 0);
	assert_int_equal(share(), 2);
	for (int i = 0; i < 6 * 60; i++)
		tick(SECOND, 0);
	assert_int_equal(share(), 64);
}

/* Within six standard deviations of a sample of one in `parts`. */
static void expect_about(uint32_t found, uint32_t truth, uint32_t parts)
{
	int64_t off = (int64_t)found - truth;

	if (off * off > 36LL * truth * (parts - 1))
		fail_msg("%u flows alive, there are %u", found, truth);
}

WATCHING(test_figures_are_scaled_to_all_flows)
{
	open_flows(0, 10000);
	assert_in_range(alive(&web), 9990, 10000);
	tick(SECOND, 5 * WATCH_RATE);
	assert_int_equal(share(), 8);
	expect_about(alive(&web), 10000, 8);
	for (uint32_t i = 0; i < 5000; i++)
		send_as(i, &web, FIN);
	expect_about(alive(&web), 5000, 8);
}

WATCHING(test_added_choices_count_once_they_are_known)
{
	open_flows(0, 5000);
	tick(SECOND, 3 * WATCH_RATE / 2);
	assert_int_equal(share(), 32);
	for (int i = 0; i < 60; i++)
		tick(SECOND, 0);
	assert_int_equal(share(), 64);
	/* the flows of the other half are silent */
	expect_about(alive(&web), 5000, 2);
	for (uint32_t i = 0; i < 5000; i++)
		send_as(i, &web, ACK);
	for (int i = 0; i < 400; i++)
		tick(SECOND, 0);
	assert_in_range(alive(&web), 4995, 5000);
}

WATCHING(test_service_with_many_flows_harms_no_other)
{
	struct flow other = web;
	const uint32_t many = WATCH_FLOWS + WATCH_FLOWS / 4;

	if (is_quick())
		skip();
	other.destination_port = 443;
	set_with_one_member(node, key_of(&other),
			    (struct oxp_service_settings){});
	for (uint32_t i = 0; i < 200; i++)
		for (int times = 0; times < 2; times++)
			send_as(i, &other, ACK);
	for (uint32_t i = 0; i < many; i++)
		send_as(i, &web, ACK);
	tick(SECOND, 0);
	assert_int_equal(share(), 64);
	assert_in_range(alive(&other), 198, 200);
	/* entries of the others are removed by the next tick */
	tick(SECOND, 0);
	assert_int_equal(alive(&web) % 2, 0);
	/* One in 41 of them found eight others in its set, where there are five
	 * on average. Now there is room. */
	for (uint32_t i = 0; i < many; i++)
		send_as(i, &web, ACK);
	expect_about(alive(&web), many, 2);
	let_pass(351);
	tick(SECOND, 0);
	for (int i = 0; i < 2; i++)
		tick(400 * SECOND, 0);
	send_as(1, &web, ACK);
	assert_int_equal(alive(&web), 1);
}

static void fill(struct oxp_uplink *uplinks, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uplinks[i] = (struct oxp_uplink){
			.ifindex = 1, .mtu = 1500, .vlans = 1, .vlan = {i + 1}};
		memset(uplinks[i].own_mac, 2, 6);
		memset(uplinks[i].next_hop_mac_v4, 4, 6);
		memset(uplinks[i].next_hop_mac_v6, 4, 6);
	}
}

#define SIZE_WITHOUT_PADDING                                                   \
	(offsetof(struct oxp_uplink, vlan) +                                   \
	 sizeof(((struct oxp_uplink *)NULL)->vlan))

WATCHING(test_watching_does_not_change_listed_uplinks)
{
	struct oxp_uplink uplinks[OXP_UPLINKS_MAX], listed[OXP_UPLINKS_MAX];
	struct oxp_choices choices, again;

	for (uint32_t count = 1; count <= OXP_UPLINKS_MAX; count++) {
		fill(uplinks, count);
		assert_ok(oxp_uplinks_set(node, uplinks, count, error));
		assert_int_equal(oxp_uplinks_list(node, listed, OXP_UPLINKS_MAX,
						  &choices, error),
				 count);
		for (uint32_t i = 0; i < count; i++)
			assert_memory_equal(&listed[i], &uplinks[i],
					    SIZE_WITHOUT_PADDING);
		/* up to four have room for a copy each, eight have none */
		if (count <= 4)
			assert_int_equal(share(), 64);
		else
			assert_in_range(share(), 0, 40);
		node->config->watched = 0;
		assert_ok(watch_uplinks(node, error));
		assert_int_equal(oxp_uplinks_list(node, listed, OXP_UPLINKS_MAX,
						  &again, error),
				 count);
		assert_memory_equal(&again, &choices, sizeof(choices));
		node->config->watched = UINT64_MAX;
		assert_ok(watch_uplinks(node, error));
	}
	assert_int_equal(share(), 0);
	send_flow(&web, ACK);
	assert_int_equal(alive(&web), 0);
}

RUN_TESTS(enter_namespace, NULL)
