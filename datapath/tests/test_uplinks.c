// SPDX-License-Identifier: Apache-2.0
/* The uplink of each of the 64 choices, through all kinds of changes. */
#include <errno.h>

#include "service_fixture.h"

#define CHOICES 64

/* Uplinks differ by VLAN: all are on the loopback device. */
static struct oxp_uplink uplink_on(uint16_t vlan)
{
	return (struct oxp_uplink){
		.ifindex = 1,
		.mtu = 1500,
		.own_mac = {2, 0, 0, 0, 0, 1},
		.next_hop_mac_v4 = {2, 0, 0, 0, 0, 2},
		.next_hop_mac_v6 = {2, 0, 0, 0, 0, 2},
		.vlans = 1,
		.vlan = {vlan},
	};
}

/* out: the VLAN of each choice, 0 for none. */
static void set(const struct oxp_uplink *uplinks, uint32_t count, bool v6,
		uint16_t *out)
{
	const struct uplink_set *live;

	assert_ok(oxp_uplinks_set(node, uplinks, count, error));
	live = &node->uplinks[node->config->active_uplinks & 1];
	for (int i = 0; i < CHOICES; i++) {
		uint8_t choice = live->choice[v6][i];

		assert_true(choice < count || choice == OXP_NO_UPLINK);
		out[i] = choice == OXP_NO_UPLINK
				 ? 0
				 : live->uplink[choice].link[v6][14] << 8 |
					   live->uplink[choice].link[v6][15];
	}
}

static uint32_t share_of(const uint16_t *choices, uint16_t vlan)
{
	uint32_t share = 0;

	for (int i = 0; i < CHOICES; i++)
		share += choices[i] == vlan;
	return share;
}

TEST(test_choices_are_spread_evenly)
{
	struct oxp_uplink uplinks[OXP_UPLINKS_MAX];
	uint16_t choices[CHOICES];

	for (uint32_t i = 0; i < OXP_UPLINKS_MAX; i++)
		uplinks[i] = uplink_on(i + 1);
	for (uint32_t count = 1; count <= OXP_UPLINKS_MAX; count++)
		for (int v6 = 0; v6 < 2; v6++) {
			set(uplinks, count, v6, choices);
			for (uint32_t i = 0; i < count; i++)
				assert_in_range(share_of(choices, i + 1),
						CHOICES / count,
						(CHOICES + count - 1) / count);
		}
	set(uplinks, 0, false, choices);
	assert_int_equal(share_of(choices, 0), CHOICES);
}

/* Only as many choices move as necessary. */
TEST(test_few_choices_move_when_uplinks_change)
{
	struct oxp_uplink uplinks[5];
	uint16_t all[CHOICES], fewer[CHOICES], again[CHOICES];
	uint32_t moved = 0;

	for (uint32_t i = 0; i < 5; i++)
		uplinks[i] = uplink_on(100 + i);
	set(uplinks, 5, false, all);
	/* 100 is removed, and the others change their order */
	set(uplinks + 1, 4, false, fewer);
	uplinks[1] = uplink_on(104);
	uplinks[4] = uplink_on(101);
	set(uplinks + 1, 4, false, again);
	assert_memory_equal(fewer, again, sizeof(again));
	for (int i = 0; i < CHOICES; i++) {
		assert_int_not_equal(fewer[i], 100);
		if (all[i] != 100)
			assert_int_equal(fewer[i], all[i]);
	}
	/* it returns and takes its share, the rest stays */
	set(uplinks, 5, false, again);
	assert_in_range(share_of(again, 100), CHOICES / 5, CHOICES / 5 + 1);
	for (int i = 0; i < CHOICES; i++)
		moved += again[i] != fewer[i];
	assert_int_equal(moved, share_of(again, 100));
}

/* An uplink is the same with an unknown or another next hop. */
TEST(test_choices_stay_when_next_hops_change)
{
	struct oxp_uplink uplinks[2] = {uplink_on(1), uplink_on(2)};
	uint16_t before[CHOICES], choices[CHOICES];

	set(uplinks, 2, false, before);
	uplinks[0].next_hop_mac_v4[5] = 9;
	uplinks[0].mtu = 9000;
	set(uplinks, 2, false, choices);
	assert_memory_equal(choices, before, sizeof(before));
	memset(uplinks[0].next_hop_mac_v4, 0, 6);
	set(uplinks, 2, false, choices);
	assert_int_equal(share_of(choices, 2), CHOICES);
	set(uplinks, 2, true, choices);
	assert_int_equal(share_of(choices, 1), CHOICES / 2);
	set(uplinks, 1, false, choices);
	assert_int_equal(share_of(choices, 0), CHOICES);
}

/* Neither set changes: packets may still read the one that is not active. */
TEST(test_refused_and_equal_uplinks_change_nothing)
{
	struct oxp_uplink uplinks[OXP_UPLINKS_MAX + 1] = {uplink_on(1),
							  uplink_on(2)};
	struct uplink_set before[2];
	uint64_t active;

	assert_ok(oxp_uplinks_set(node, uplinks, 2, error));
	active = node->config->active_uplinks;
	memcpy(before, node->uplinks, sizeof(before));
	assert_ok(oxp_uplinks_set(node, uplinks, 2, error));
	assert_int_equal(
		oxp_uplinks_set(node, uplinks, OXP_UPLINKS_MAX + 1, error),
		-E2BIG);
	uplinks[1].own_mac[0] = 1;
	assert_int_equal(oxp_uplinks_set(node, uplinks, 2, error), -EINVAL);
	uplinks[1] = uplink_on(2);
	uplinks[1].ifindex = 2000000000;
	assert_int_equal(oxp_uplinks_set(node, uplinks, 2, error), -ENODEV);
	assert_non_null(strstr(error, "2000000000"));
	assert_int_equal(node->config->active_uplinks, active);
	assert_memory_equal(before, node->uplinks, sizeof(before));
}

/* A packet has the index of a set and may read it after a change. */
static struct uplink_set first;
static int waits;

static void look_at_first(void)
{
	uint64_t scratch = ~node->config->active_uplinks & 1;

	waits++;
	assert_memory_equal(&node->uplinks[scratch], &first, sizeof(first));
}

TEST(test_sets_of_uplinks_wait_for_packets)
{
	struct oxp_uplink uplinks[3] = {uplink_on(1), uplink_on(2),
					uplink_on(3)};
	uint16_t choices[CHOICES];

	set(&uplinks[0], 1, false, choices);
	first = node->uplinks[node->config->active_uplinks & 1];
	set(&uplinks[1], 1, false, choices);
	when_waiting = look_at_first;
	set(&uplinks[2], 1, false, choices);
	when_waiting = NULL;
	assert_int_equal(waits, 1);
}

RUN_TESTS(enter_namespace, NULL)
