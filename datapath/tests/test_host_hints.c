// SPDX-License-Identifier: Apache-2.0
/* bpf/host/hints.h leads packets to current entries only; and what an
 * interrupted deletion leaves. */
#include <arpa/inet.h>

#include "host_harness.h"
#include "state.h"

#define OTHER_FIXED "10.7.0.6"

static const struct oxh_sizes small = {.entries = 4, .ports = 2};
static const struct segment syn = {.flags = SYN}, answer = {.flags = SYN | ACK},
			    other_answer = {.fixed = OTHER_FIXED,
					    .flags = SYN | ACK};

static struct oxh_host *host_with_listener(void)
{
	struct oxh_entry entry = entry_of(KEY, 1);
	struct oxh_host *host = fresh_host(&small);

	set_open_port(host, 1, 0);
	set_entry(host, &entry);
	return host;
}

/* Set an entry of another member behind the same tap. */
static void set_other(struct oxh_host *host, uint32_t key)
{
	struct oxh_entry entry = entry_of(key, 1);

	entry.fixed = address(OTHER_FIXED);
	set_entry(host, &entry);
}

static void expect_in(struct oxh_host *host, uint32_t key, const char *fixed)
{
	uint8_t frame[OXH_FRAME_MAX], out[OXH_FRAME_MAX];
	size_t length = make_in(frame, key, &syn);
	struct in_addr destination, expected;

	length = run(host, OXH_NIC, frame, length, out);
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
static void expect_out(struct oxh_host *host, const struct segment *segment,
		       bool taken)
{
	uint8_t frame[OXH_FRAME_MAX], out[OXH_FRAME_MAX];
	size_t length = make_out(frame, segment);

	length = run(host, OXH_TAP_IN, frame, length, out);
	assert_int_equal(length > 0, taken);
}

HOST_TEST(test_reused_place_is_no_hint)
{
	struct oxh_host *host;

	host = host_with_listener();
	for (int i = 0; i < 2; i++) {
		expect_in(host, KEY, FIXED);
		expect_out(host, &answer, true);
	}
	assert_int_equal(oxh_entry_delete(host, KEY, error), 0);
	expect_in(host, KEY, NULL);
	expect_out(host, &answer, false);
	/* the place is used again */
	set_other(host, KEY + 1);
	assert_int_equal(entries_of(host)[0].key, KEY + 1);
	for (int i = 0; i < 2; i++) {
		expect_in(host, KEY, NULL);
		expect_out(host, &answer, false);
		expect_in(host, KEY + 1, OTHER_FIXED);
		expect_out(host, &other_answer, true);
	}
	end_host(host);
}

HOST_TEST(test_entry_that_moves_is_found_again)
{
	struct oxh_entry entry = entry_of(KEY, 1);
	struct oxh_host *host;

	host = host_with_listener();
	expect_in(host, KEY, FIXED);
	expect_out(host, &answer, true);
	assert_int_equal(oxh_entry_delete(host, KEY, error), 0);
	set_other(host, KEY + 1);
	set_entry(host, &entry);
	assert_int_equal(entries_of(host)[1].key, KEY);
	for (int i = 0; i < 2; i++) {
		expect_in(host, KEY, FIXED);
		expect_out(host, &answer, true);
		expect_in(host, KEY + 1, OTHER_FIXED);
		expect_out(host, &other_answer, true);
	}
	end_host(host);
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
	struct oxh_host *host;

	host = fresh_host(&sizes);
	set_open_port(host, 1, 0);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct oxh_entry entry = entry_of(key_of(i), 1);

		entry.fixed.bytes[14] = i >> 8;
		entry.fixed.bytes[15] = i;
		set_entry(host, &entry);
	}
	for (uint32_t i = 0; i < 2 * KEYS; i++) {
		uint32_t one = i % KEYS;

		snprintf(fixed, sizeof(fixed), "10.7.%u.%u", one >> 8,
			 one & 255);
		expect_in(host, key_of(one), fixed);
		expect_out(host, &back, true);
	}
	end_host(host);
}

HOST_TEST(test_deletion_is_ended_by_the_next_change)
{
	struct oxh_entry entry = entry_of(KEY, 1);
	struct oxh_port port = port_of(1);
	const struct segment flow = {.client_port = CLIENT_PORT};
	struct oxh_host *host;

	host = host_with_listener();
	establish(host, &flow);
	assert_int_equal(oxh_port_flows_list(host, port.id, NULL, 0, error), 1);
	/* left by a library that was killed */
	entries_of(host)[0].used = HOST_ENTRY_GOING;
	expect_in(host, KEY, NULL);
	expect_out(host, &answer, false);
	/* it is listed, so that it can be deleted */
	assert_int_equal(oxh_entries_list(host, NULL, 0, error), 1);
	set_other(host, KEY + 1);
	assert_int_equal(oxh_entries_list(host, NULL, 0, error), 1);
	assert_int_equal(oxh_port_flows_list(host, port.id, NULL, 0, error), 0);
	assert_int_equal(oxh_entry_delete(host, KEY, error), 1);
	set_entry(host, &entry);
	expect_in(host, KEY, FIXED);
	expect_in(host, KEY + 1, OTHER_FIXED);
	end_host(host);
}

RUN_TESTS(enter_host_namespace, NULL)
