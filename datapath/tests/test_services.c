// SPDX-License-Identifier: Apache-2.0
/* Services, members and their health through the public interface. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "harness.h"

static struct oxp_node *node;
static struct oxp_key http;
static const struct oxp_service_settings small = {.slots = TEST_SLOTS};

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

	if (oxp_service_get(node, &http, &service, error))
		fail_msg("service: %s", error);
	return service;
}

static struct oxp_member_state one(uint32_t which)
{
	struct oxp_member_state states[OXP_MEMBERS_MAX];
	int count =
		oxp_members_list(node, &http, states, OXP_MEMBERS_MAX, error);

	assert_true((int)which < count);
	return states[which];
}

static void expect_health(uint32_t which, int healthy, int known)
{
	struct oxp_member_state state = one(which);

	assert_int_equal(state.healthy, healthy);
	assert_int_equal(state.known, known);
}

static int apply(uint64_t check, uint8_t up)
{
	struct oxp_health_result result = {check, up};

	return oxp_health_apply(node, &result, 1, error);
}

static void test_setting_an_equal_service_changes_nothing(void **state)
{
	struct oxp_member members[3], swapped[3];
	uint8_t changed;

	(void)state;
	make_members(members, 3, 0, 0);
	set_service(node, &http, members, 3);
	assert_int_equal(show().generation, 1);
	for (int i = 0; i < 3; i++)
		swapped[i] = members[2 - i];
	assert_int_equal(oxp_service_set(node, &http, &small, swapped, 3,
					 &changed, error),
			 0);
	assert_int_equal(changed, 0);
	assert_int_equal(show().generation, 1);
	swapped[1].weight = 2;
	assert_int_equal(oxp_service_set(node, &http, &small, swapped, 3,
					 &changed, error),
			 0);
	assert_int_equal(changed, 1);
	assert_int_equal(show().generation, 2);
}

static void test_new_members_with_a_check_are_down(void **state)
{
	struct oxp_member members[2];

	(void)state;
	make_members(members, 2, 0, 0);
	members[1].check = 7;
	set_service(node, &http, members, 2);
	expect_health(0, 1, 0);
	expect_health(1, 0, 0);
	assert_int_equal(show().enabled, 1);
}

static void test_health_is_carried_over_with_the_check(void **state)
{
	struct oxp_member members[2];

	(void)state;
	make_members(members, 2, 0, 0);
	set_service(node, &http, members, 1);
	members[0].check = 7; /* gets a check: keeps its traffic */
	set_service(node, &http, members, 1);
	expect_health(0, 1, 0);
	assert_int_equal(apply(7, 0), 1);
	expect_health(0, 0, 1);
	members[0].weight = 5; /* same check: keeps its state */
	set_service(node, &http, members, 2);
	expect_health(0, 0, 1);
	members[0].check = 8; /* another check: not known */
	set_service(node, &http, members, 2);
	expect_health(0, 0, 0);
	assert_int_equal(apply(7, 1), 0);
	assert_int_equal(apply(8, 1), 1);
	expect_health(0, 1, 1);
	members[0].check = 9;
	set_service(node, &http, members, 2);
	expect_health(0, 1, 0);
	assert_int_equal(apply(9, 0), 1);
	members[0].check = 0; /* no check any more: up */
	set_service(node, &http, members, 2);
	expect_health(0, 1, 0);
}

static void test_results_of_a_call_switch_a_service_once(void **state)
{
	struct oxp_member members[10];
	struct oxp_health_result results[12];
	struct oxp_key https = tcp_key(VIP, 443);
	uint64_t generation;

	(void)state;
	make_members(members, 10, 0, 100);
	set_service(node, &http, members, 10);
	set_service(node, &https, members, 5);
	for (int i = 0; i < 10; i++)
		results[i] = (struct oxp_health_result){100 + i, 1};
	results[10] =
		(struct oxp_health_result){100, 0}; /* the last one counts */
	results[11] = (struct oxp_health_result){9999, 1};
	assert_int_equal(oxp_health_apply(node, results, 12, error), 2);
	assert_int_equal(show().generation, 2);
	assert_int_equal(show().enabled, 9);
	expect_health(0, 0, 1);
	assert_int_equal(oxp_health_apply(node, results, 12, error), 0);

	/* drained: its flows end with it, so packets have to know */
	members[9].weight = 0;
	set_service(node, &http, members, 10);
	generation = show().generation;
	assert_int_equal(apply(109, 0), 1);
	expect_health(9, 0, 1);
	assert_int_equal(show().generation, generation + 1);
	/* what packets do not read changes in place */
	members[9].admin_up = 0;
	set_service(node, &http, members, 10);
	generation = show().generation;
	assert_int_equal(apply(109, 1), 0);
	expect_health(9, 1, 1);
	assert_int_equal(show().generation, generation);
}

static void test_slots_lead_nowhere_without_healthy_members(void **state)
{
	struct oxp_member member;
	uint16_t table[TEST_SLOTS];

	(void)state;
	make_members(&member, 1, 0, 5);
	set_service(node, &http, &member, 1);
	assert_int_equal(apply(5, 1), 1);
	assert_int_equal(apply(5, 0), 1);
	assert_int_equal(show().enabled, 0);
	assert_int_equal(
		oxp_table_get(node, &http, table, NULL, TEST_SLOTS, error),
		TEST_SLOTS);
	for (int i = 0; i < TEST_SLOTS; i++)
		assert_int_equal(table[i], OXP_NO_MEMBER);
}

/* Two nodes that saw the same things in another order have one table. */
static void test_table_does_not_depend_on_the_order_of_events(void **state)
{
	struct oxp_key https = tcp_key(VIP, 443);
	uint16_t left[TEST_SLOTS], right[TEST_SLOTS];
	struct oxp_member members[8];

	(void)state;
	make_members(members, 8, 0, 10);
	for (int i = 0; i < 8; i++)
		members[i].weight = i + 1;
	set_service(node, &http, members, 8);
	for (int i = 0; i < 8; i++)
		apply(10 + i, 1);
	apply(12, 0);

	for (int i = 0; i < 8; i++)
		members[i].check += 100;
	for (int i = 1; i <= 8; i++) {
		set_service(node, &https, members, i);
		apply(110 + 8 - i, 1);
		apply(112, 0);
	}
	for (int i = 7; i >= 0; i--)
		apply(110 + i, i != 2);
	oxp_table_get(node, &http, left, NULL, TEST_SLOTS, error);
	oxp_table_get(node, &https, right, NULL, TEST_SLOTS, error);
	assert_memory_equal(left, right, sizeof(left));
}

static void send_packets(int program, int packets)
{
	struct flow flow = {CLIENT, VIP, 40000, 80, IPPROTO_TCP};
	struct frame frame;

	make_frame(&frame, &flow, 0, NULL);
	for (int i = 0; i < packets; i++)
		assert_int_equal(run(program, &frame, NULL), XDP_TX);
}

static void test_counters_stay_with_members(void **state)
{
	struct oxp_member members[3];
	int program = forward_program(node);

	(void)state;
	make_members(members, 3, 0, 0);
	set_service(node, &http, members + 1, 1);
	send_packets(program, 5);
	set_service(node, &http, members, 3);
	assert_int_equal(one(0).counters.packets, 0);
	assert_int_equal(one(1).counters.packets, 5);
	/* gone and back: from zero, whatever counter it gets */
	set_service(node, &http, members, 1);
	set_service(node, &http, members, 2);
	assert_int_equal(one(1).counters.packets, 0);
	assert_int_equal(show().counters.packets, 5);
	assert_int_equal(oxp_services_delete(node, &http, 1, error), 1);
	set_service(node, &http, members, 2);
	assert_int_equal(show().counters.packets, 0);
	close(program);
}

/* An index is not given away while a packet could still count for it. */
static void test_counters_of_removed_members_wait_for_packets(void **state)
{
	struct oxp_member members[OXP_MEMBERS_MAX];
	struct oxp_key https = tcp_key(VIP, 443);
	uint64_t epoch;

	(void)state;
	make_members(members, 255, 0, 0);
	set_service(node, &http, members, 255);
	set_service(node, &https, members, 255);
	http.port = 81; /* 510 of 512 are in use */
	set_service(node, &http, members, 2);
	http.port = 80;
	set_service(node, &http, members, 254);
	epoch = node->config->epoch;
	http.port = 82;
	set_service(node, &http, members, 1);
	assert_true(node->config->epoch > epoch);
	http.port = 80;
}

static int waits;

static void count_wait(void)
{
	waits++;
}

/* Also one that another process has released. */
static void test_counters_wait_in_all_processes(void **state)
{
	struct oxp_key keys[] = {tcp_key(VIP, 1), tcp_key(VIP, 2),
				 tcp_key(VIP, 3), tcp_key(VIP, 4)};
	struct oxp_member members[OXP_MEMBERS_MAX];
	struct oxp_node *other;

	(void)state;
	make_members(members, 255, 0, 0);
	set_service(node, &keys[0], members, 255);
	set_service(node, &keys[1], members, 255);
	set_service(node, &keys[2], members, 2); /* all 512 are in use */
	set_service(node, &keys[0], members, 254);
	other = open_state();
	waits = 0;
	when_waiting = count_wait;
	set_service(other, &keys[3], members, 1);
	when_waiting = NULL;
	assert_int_equal(waits, 1);
	oxp_close(other);
}

/* A flow may be remembered with a member that was removed: its place is empty,
 * also in the block that had it. */
static void test_places_of_removed_members_are_empty(void **state)
{
	static const struct block_member nobody;
	struct oxp_member members[3];
	struct service_block *block;

	(void)state;
	make_members(members, 3, 0, 5);
	set_service(node, &http, members, 3);
	block = live_block(node, show().index);
	set_service(node, &http, members, 1);
	assert_int_equal(apply(5, 1), 1);
	assert_ptr_equal(live_block(node, show().index), block);
	for (int i = 1; i < 3; i++)
		assert_memory_equal(&block->member[i], &nobody, sizeof(nobody));
}

/* While a deletion waits, no packet finds the service any more, and nothing
 * of it is free: its index, its members' counters and what they are in. */
static struct {
	uint32_t index, times;
	struct service_block *block, before;
} deleted;

static void look_at_deleted(void)
{
	const struct service_entry *entry = entry_of(node, deleted.index);
	struct lookup_key key = entry_key(entry);

	deleted.times++;
	assert_int_equal(lookup_find(node, &key), -ENOENT);
	assert_int_equal(entry->state, ENTRY_USED);
	for (uint32_t i = 0; i < deleted.block->members; i++)
		assert_int_equal(
			node->counter_free_since[deleted.block->member[i]
							 .counter],
			COUNTER_USED);
	assert_memory_equal(deleted.block, &deleted.before,
			    sizeof(deleted.before));
}

static void test_deletion_waits_for_packets(void **state)
{
	struct oxp_member members[3];

	(void)state;
	make_members(members, 3, 0, 0);
	set_service(node, &http, members, 3);
	deleted.index = show().index;
	deleted.block = live_block(node, deleted.index);
	deleted.before = *deleted.block;
	when_waiting = look_at_deleted;
	assert_int_equal(oxp_services_delete(node, &http, 1, error), 1);
	when_waiting = NULL;
	assert_int_equal(deleted.times, 1);
	assert_int_equal(entry_of(node, deleted.index)->state, ENTRY_FREE);
}

static void test_updates_share_a_grace_period(void **state)
{
	struct oxp_member members[3];
	uint64_t epoch;

	(void)state;
	make_members(members, 3, 0, 0);
	for (http.port = 1; http.port <= 8; http.port++) {
		set_service(node, &http, members, 1);
		/* a new one has a free block: not the second one */
		set_service(node, &http, members, 3);
	}
	epoch = node->config->epoch;
	for (http.port = 1; http.port <= 8; http.port++)
		set_service(node, &http, members, 2);
	assert_int_equal(node->config->epoch, epoch + 1);
}

static void test_state_of_another_layout_is_not_opened(void **state)
{
	struct oxp_options options = {
		.pin_directory = node->pin_directory,
		.lock_file = "/mnt/lock",
		.create = 1,
	};
	struct oxp_node *second = NULL;

	(void)state;
	node->config->layout = OXP_LAYOUT + 1;
	assert_int_equal(oxp_open(&options, &second, error), -EPROTO);
	assert_null(second);
	assert_non_null(strstr(error, "layout"));
	node->config->layout = OXP_LAYOUT;
	assert_int_equal(oxp_open(&options, &second, error), 0);
	oxp_close(second);
}

/* Packets may have found what a killed process had begun to delete. */
static void look_at_repair(void)
{
	waits++;
	assert_int_equal(entry_of(node, 3)->state, ENTRY_USED);
}

static void test_interrupted_creations_and_deletions_are_repaired(void **state)
{
	struct oxp_address stray = address("1.2.3.4");
	struct lookup_key service = lookup_key(stray.bytes, htons(5), 6);
	struct lookup_key vip = lookup_key(stray.bytes, 0, 0);
	struct quic_key server = {.service = 9};
	struct allowed_v4 network = {.length = 32, .set = htonl(18)};
	struct oxp_member member;
	struct oxp_info info;
	__u32 one = 1;

	(void)state;
	make_members(&member, 1, 0, 0);
	set_service(node, &http, &member, 1);
	/* what a creation or deletion may leave that was cut off: keys
	 * without entries, an entry without key, others' leftovers */
	assert_true(lookup_insert(node, &service, 18) >= 0);
	assert_true(lookup_insert(node, &vip, 4) >= 0);
	node->vips[4].services = 1;
	entry_of(node, 3)->state = ENTRY_USED;
	assert_int_equal(bpf_map_update_elem(node->map[MAP_QUIC_SERVERS],
					     &server, &one, BPF_ANY),
			 0);
	assert_int_equal(bpf_map_update_elem(node->map[MAP_ALLOWED_V4],
					     &network, &one, BPF_ANY),
			 0);
	assert_int_not_equal(oxp_test_verify(node, error), 0);
	node->config->dirty = 1;
	waits = 0;
	when_waiting = look_at_repair;
	assert_int_equal(oxp_info_get(node, &info, error), 0);
	when_waiting = NULL;
	assert_int_equal(waits, 1);
	assert_int_equal(info.services, 1);
	assert_int_equal(node->config->dirty, 0);
	assert_int_equal(lookup_find(node, &service), -ENOENT);
	assert_int_equal(lookup_find(node, &vip), -ENOENT);
	assert_int_equal(node->vips[4].services, 0);
	assert_int_equal(show().enabled, 1);
	assert_int_not_equal(
		bpf_map_lookup_elem(node->map[MAP_ALLOWED_V4], &network, &one),
		0);
}

static void test_verify_names_the_service_of_a_damaged_slot(void **state)
{
	struct oxp_member members[2];
	uint16_t *slot;

	(void)state;
	make_members(members, 2, 0, 0);
	set_service(node, &http, members, 2);
	slot = live_block(node, show().index)->slot;
	slot[5] ^= 1;
	assert_int_equal(oxp_test_verify(node, error), 1);
	assert_non_null(strstr(error, VIP));
	slot[5] ^= 1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_setting_an_equal_service_changes_nothing),
		TEST(test_new_members_with_a_check_are_down),
		TEST(test_health_is_carried_over_with_the_check),
		TEST(test_results_of_a_call_switch_a_service_once),
		TEST(test_slots_lead_nowhere_without_healthy_members),
		TEST(test_table_does_not_depend_on_the_order_of_events),
		TEST(test_counters_stay_with_members),
		TEST(test_counters_of_removed_members_wait_for_packets),
		TEST(test_counters_wait_in_all_processes),
		TEST(test_places_of_removed_members_are_empty),
		TEST(test_deletion_waits_for_packets),
		TEST(test_updates_share_a_grace_period),
		TEST(test_state_of_another_layout_is_not_opened),
		TEST(test_interrupted_creations_and_deletions_are_repaired),
		TEST(test_verify_names_the_service_of_a_damaged_slot),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
