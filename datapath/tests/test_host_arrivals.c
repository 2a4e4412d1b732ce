// SPDX-License-Identifier: Apache-2.0
/* Packets of a VM's connections that its hypervisor does not know. */
#include "host_harness.h"

/* 16 places for each port's half-open flows. */
static const struct oxh_sizes small = {.entries = 4, .ports = 2, .flows = 1};

#define OTHER_FIXED "10.7.0.6"
#define OTHER_KEY (KEY + 1)

/* The first one has no tap. */
static void begin_with_two(void)
{
	struct oxh_entry one = entry_of(KEY, 1), other = entry_of(OTHER_KEY, 2);
	struct oxh_port port = port_of(1);

	fresh_host(&small);
	port.ifindex = 0;
	assert_ok(oxh_port_set(host, &port, NULL, 0, error));
	set_open_port(2, 0);
	set_entry(&one);
	other.fixed = address(OTHER_FIXED);
	set_entry(&other);
}

static void receive_directly(const struct segment *segment)
{
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];

	run(OXH_TAP_OUT, in, make_direct(in, segment), out);
}

static void expect_own(const struct segment *segment)
{
	uint64_t drops = outcome(OXH_DROP_ARRIVING);

	assert_false(send_out(segment, NULL));
	assert_int_equal(outcome(OXH_DROP_ARRIVING), drops);
}

static void expect_held(const struct segment *segment)
{
	uint64_t drops = outcome(OXH_DROP_ARRIVING);

	assert_false(send_out(segment, NULL));
	assert_int_equal(outcome(OXH_DROP_ARRIVING), drops + 1);
}

static void begin_with_new_tap(void)
{
	begin_with_two();
	set_open_port(1, 0);
}

HOST_TEST(test_answers_wait_for_flows_of_a_vm_that_moves)
{
	const struct segment answer = {.flags = ACK};
	const struct segment other = {.flags = ACK, .client_port = 2000};
	struct oxh_flow flow = {.client = address(CLIENT),
				.client_port = CLIENT_PORT,
				.key = KEY};

	begin_with_new_tap();
	assert_int_equal(ports_of(host)[0].arrives_until, HOST_AWAITED);
	expect_held(&answer);
	assert_int_equal(oxh_flows_add(host, &flow, 1, error), 1);
	assert_true(send_out(&answer, NULL));
	expect_held(&other);
}

HOST_TEST(test_vm_has_arrived_after_some_time)
{
	const struct segment answer = {.flags = ACK};
	uint32_t until;

	begin_with_new_tap();
	expect_held(&answer);
	until = ports_of(host)[0].arrives_until;
	expect_held(&answer);
	assert_int_equal(ports_of(host)[0].arrives_until, until);
	ports_of(host)[0].arrives_until = until - HOST_ARRIVAL_UNITS - 1;
	expect_own(&answer);
	assert_int_equal(ports_of(host)[0].arrives_until, 0);
	/* other rules with the same tap */
	set_open_port(1, 7);
	expect_own(&answer);
}

/* Neither direct traffic of another port nor its flows. */
HOST_TEST(test_another_port_takes_nothing_from_a_direct_connection)
{
	const struct segment answer = {.flags = ACK};

	begin_with_new_tap();
	ports_of(host)[1].arrives_until = HOST_AWAITED;
	receive_directly(&answer);
	for (uint16_t i = 0; i < 1000; i++) {
		const struct segment flood = {.fixed = OTHER_FIXED,
					      .client_port = 2000 + i,
					      .flags = ACK};

		receive_directly(&flood);
	}
	expect_own(&answer);
}

RUN_TESTS(enter_host_namespace, NULL)
