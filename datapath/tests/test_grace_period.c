// SPDX-License-Identifier: Apache-2.0
/* What is removed or replaced waits for packets that may still use it, and
 * updates wait no more often than necessary. */
#include <errno.h>

#include "service_fixture.h"

/* An index is not reused while a packet could still count for it. */
TEST(test_counters_of_removed_members_wait_for_packets)
{
	struct oxp_member members[OXP_MEMBERS_MAX];
	struct oxp_key https = tcp_key(VIP, 443);
	uint64_t epoch;

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

/* Also for a counter that another process has released. */
TEST(test_counters_wait_in_all_processes)
{
	struct oxp_key keys[] = {tcp_key(VIP, 1), tcp_key(VIP, 2),
				 tcp_key(VIP, 3), tcp_key(VIP, 4)};
	struct oxp_member members[OXP_MEMBERS_MAX];
	struct oxp_node *other;

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

/* While a deletion waits, packets no longer find the service, and nothing of it
 * is free: its index, its members' counters and their memory. */
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

TEST(test_deletion_waits_for_packets)
{
	struct oxp_member members[3];

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

TEST(test_updates_share_a_grace_period)
{
	struct oxp_member members[3];
	uint64_t epoch;

	make_members(members, 3, 0, 0);
	for (http.port = 1; http.port <= 8; http.port++) {
		set_service(node, &http, members, 1);
		/* a new service has a free block: use the second one, too */
		set_service(node, &http, members, 3);
	}
	epoch = node->config->epoch;
	for (http.port = 1; http.port <= 8; http.port++)
		set_service(node, &http, members, 2);
	assert_int_equal(node->config->epoch, epoch + 1);
}

RUN_TESTS(enter_namespace, NULL)
