// SPDX-License-Identifier: Apache-2.0
/* Backup members, draining, networks, ageing, other layouts, repair. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "service_fixture.h"

TEST(test_backups_take_over_and_drained_members_keep_flows)
{
	struct oxp_member members[3];

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
	assert_true(show().open_slots > 0); /* old flows continue */
}

/* Without a flow slots would close at once. */
static void begin_a_flow(void)
{
	static const struct flow flow = {CLIENT, VIP, 40000, 80, IPPROTO_TCP};
	struct variation syn = {.tcp_flags = 2};
	int program = forward_program(node);
	struct frame frame;

	make_frame(&frame, &flow, 0, &syn);
	assert_int_equal(run(program, &frame, NULL), XDP_TX);
	close(program);
}

TEST(test_open_slots_close_after_the_idle_timeout)
{
	struct oxp_member members[4];

	make_members(members, 4, 0, 0);
	set_service(node, &http, members, 3);
	begin_a_flow();
	set_service(node, &http, members, 4);
	assert_true(show().open_slots > 0);
	oxp_slots_age(node, error);
	for (int i = 0; i < 8; i++) {
		node->config->ticked -= 350000 / 8;
		assert_true(oxp_slots_age(node, error) > 0);
	}
	/* too early for another step */
	assert_true(oxp_slots_age(node, error) > 0);
	node->config->ticked -= 350000 / 8;
	assert_ok(oxp_slots_age(node, error));
	assert_int_equal(show().open_slots, 0);
}

TEST(test_allowed_networks_are_those_set_last)
{
	struct oxp_network networks[2] = {{address("10.1.2.3"), 16},
					  {address("2001:db8::1"), 32}};
	struct oxp_service_settings settings = {
		.slots = TEST_SLOTS, .allowed = networks, .allowed_count = 2};
	struct oxp_network out[2];
	struct oxp_member member;

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
	assert_ok(oxp_networks_list(node, &http, out, 2, error));
}

TEST(test_state_of_another_layout_is_not_opened)
{
	struct oxp_options options = {
		.pin_directory = node->pin_directory,
		.lock_file = "/mnt/lock-node",
		.create = 1,
	};
	struct oxp_node *second = NULL;

	node->config->layout = OXP_LAYOUT + 1;
	assert_int_equal(oxp_open(&options, &second, error), -EPROTO);
	assert_null(second);
	assert_non_null(strstr(error, "layout"));
	node->config->layout = OXP_LAYOUT;
	assert_ok(oxp_open(&options, &second, error));
	oxp_close(second);
}

static int waits;

/* Packets may still use what a killed process began to delete. */
static void look_at_repair(void)
{
	waits++;
	assert_int_equal(entry_of(node, 3)->state, ENTRY_USED);
}

TEST(test_interrupted_creations_and_deletions_are_repaired)
{
	struct oxp_address stray = address("1.2.3.4");
	struct lookup_key service = lookup_key(stray.bytes, htons(5), 6);
	struct lookup_key vip = lookup_key(stray.bytes, 0, 0);
	struct quic_key server = {.service = 9};
	struct oxp_member member;
	struct oxp_info info;
	__u32 one = 1;

	make_members(&member, 1, 0, 0);
	set_service(node, &http, &member, 1);
	/* leftovers of an interrupted creation or deletion: keys without
	 * entries, an entry without key, and others */
	assert_true(lookup_insert(node, &service, 18) >= 0);
	assert_true(lookup_insert(node, &vip, 4) >= 0);
	node->vips[4].services = 1;
	entry_of(node, 3)->state = ENTRY_USED;
	assert_int_equal(bpf_map_update_elem(node->map[MAP_QUIC_SERVERS],
					     &server, &one, BPF_ANY),
			 0);
	assert_int_not_equal(oxp_test_verify(node, error), 0);
	node->config->dirty = 1;
	waits = 0;
	when_waiting = look_at_repair;
	assert_ok(oxp_info_get(node, &info, error));
	when_waiting = NULL;
	assert_int_equal(waits, 1);
	assert_int_equal(info.services, 1);
	assert_int_equal(node->config->dirty, 0);
	assert_int_equal(lookup_find(node, &service), -ENOENT);
	assert_int_equal(lookup_find(node, &vip), -ENOENT);
	assert_int_equal(node->vips[4].services, 0);
	assert_int_equal(show().enabled, 1);
}

TEST(test_verify_names_the_service_of_a_damaged_slot)
{
	struct oxp_member members[2];
	uint8_t *slot;

	make_members(members, 2, 0, 0);
	set_service(node, &http, members, 2);
	slot = (uint8_t *)slots_of(live_block(node, show().index));
	slot[5] ^= 1;
	assert_int_equal(oxp_test_verify(node, error), 1);
	assert_non_null(strstr(error, VIP));
	slot[5] ^= 1;
}

RUN_TESTS(enter_namespace, NULL)
