// SPDX-License-Identifier: Apache-2.0
/* bpf/host/hints.h leads packets to current entries only; and what an
 * interrupted deletion leaves. */
#include <arpa/inet.h>

#include "host_harness.h"

#define OTHER_FIXED "10.7.0.6"

static const struct oxh_sizes small = {.entries = 4, .ports = 2};
static const struct segment syn = {.flags = SYN}, answer = {.flags = SYN | ACK},
			    other_answer = {.fixed = OTHER_FIXED,
					    .flags = SYN | ACK};

/* Set an entry of another member behind the same tap. */
static void set_other(uint32_t key)
{
	struct oxh_entry entry = entry_of(key, 1);

	entry.fixed = address(OTHER_FIXED);
	set_entry(&entry);
}

static void expect_in(uint32_t key, const char *fixed)
{
	static uint8_t out[OXH_FRAME_MAX];
	size_t length = send_in(key, &syn, out);
	struct in_addr destination, expected;

	if (!fixed) {
		assert_int_equal(length, 0);
		return;
	}
	assert_in_range(length, 54, OXH_FRAME_MAX);
	memcpy(&destination, out + 30, sizeof(destination));
	assert_int_equal(inet_pton(AF_INET, fixed, &expected), 1);
	assert_int_equal(destination.s_addr, expected.s_addr);
}

/* Whether the VM's answer is taken, or left as it is. */
static void expect_out(const struct segment *segment, bool taken)
{
	assert_int_equal(send_out(segment, NULL) > 0, taken);
}

HOST_TEST(test_reused_place_is_no_hint)
{
	fresh_listener(&small, 0);
	for (int i = 0; i < 2; i++) {
		expect_in(KEY, FIXED);
		expect_out(&answer, true);
	}
	assert_ok(oxh_entry_delete(host, KEY, error));
	expect_in(KEY, NULL);
	expect_out(&answer, false);
	/* the place is used again */
	set_other(KEY + 1);
	assert_int_equal(entries_of(host)[0].key, KEY + 1);
	for (int i = 0; i < 2; i++) {
		expect_in(KEY, NULL);
		expect_out(&answer, false);
		expect_in(KEY + 1, OTHER_FIXED);
		expect_out(&other_answer, true);
	}
}

HOST_TEST(test_entry_that_moves_is_found_again)
{
	struct oxh_entry entry = entry_of(KEY, 1);

	fresh_listener(&small, 0);
	expect_in(KEY, FIXED);
	expect_out(&answer, true);
	assert_ok(oxh_entry_delete(host, KEY, error));
	set_other(KEY + 1);
	set_entry(&entry);
	assert_int_equal(entries_of(host)[1].key, KEY);
	for (int i = 0; i < 2; i++) {
		expect_in(KEY, FIXED);
		expect_out(&answer, true);
		expect_in(KEY + 1, OTHER_FIXED);
		expect_out(&other_answer, true);
	}
}

#define KEYS 1000 /* about sixty of them share a hint */

static uint32_t key_of(uint32_t i)
{
	return (i + 1) * (i + 7919) % 0xffffff + 1;
}

HOST_TEST(test_keys_may_share_a_hint)
{
	const struct oxh_sizes sizes = {.entries = KEYS, .ports = 1};
	char fixed[INET_ADDRSTRLEN];
	const struct segment back = {.fixed = fixed, .flags = SYN | ACK};

	fresh_host(&sizes);
	set_open_port(1, 0);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct oxh_entry entry = entry_of(key_of(i), 1);

		entry.fixed.bytes[14] = i >> 8;
		entry.fixed.bytes[15] = i;
		set_entry(&entry);
	}
	for (uint32_t i = 0; i < 2 * KEYS; i++) {
		uint32_t one = i % KEYS;

		snprintf(fixed, sizeof(fixed), "10.7.%u.%u", one >> 8,
			 one & 255);
		expect_in(key_of(one), fixed);
		expect_out(&back, true);
	}
}

HOST_TEST(test_deletion_is_ended_by_the_next_change)
{
	struct oxh_entry entry = entry_of(KEY, 1);
	struct oxh_port port = port_of(1);
	const struct segment flow = {.client_port = CLIENT_PORT};

	fresh_listener(&small, 0);
	establish(&flow);
	assert_int_equal(oxh_port_flows_list(host, port.id, NULL, 0, error), 1);
	/* left by a library that was killed */
	entries_of(host)[0].used = HOST_ENTRY_GOING;
	expect_in(KEY, NULL);
	expect_out(&answer, false);
	/* it is listed, so that it can be deleted */
	assert_int_equal(oxh_entries_list(host, NULL, 0, error), 1);
	set_other(KEY + 1);
	assert_int_equal(oxh_entries_list(host, NULL, 0, error), 1);
	assert_ok(oxh_port_flows_list(host, port.id, NULL, 0, error));
	assert_int_equal(oxh_entry_delete(host, KEY, error), 1);
	set_entry(&entry);
	expect_in(KEY, FIXED);
	expect_in(KEY + 1, OTHER_FIXED);
}

RUN_TESTS(enter_host_namespace, NULL)
