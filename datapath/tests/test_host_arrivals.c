// SPDX-License-Identifier: Apache-2.0
/* Packets of a VM's connections that its hypervisor does not know. */
#include "host_harness.h"
#include "state.h"

/* 16 places for each port's half-open flows. */
static const struct oxh_sizes small = {.entries = 4, .ports = 2, .flows = 1};

#define OTHER_FIXED "10.7.0.6"
#define OTHER_KEY (KEY + 1)

/* The first one has no tap. */
static struct oxh_host *host_of_two(void)
{
	struct oxh_entry one = entry_of(KEY, 1), other = entry_of(OTHER_KEY, 2);
	struct oxh_host *host = fresh_host(&small);
	struct oxh_port port = port_of(1);

	port.ifindex = 0;
	assert_int_equal(oxh_port_set(host, &port, NULL, 0, error), 0);
	set_open_port(host, 2, 0);
	set_entry(host, &one);
	other.fixed = address(OTHER_FIXED);
	set_entry(host, &other);
	return host;
}

/* Whether the VM's packet is sent; and a direct packet to the VM. */
static bool is_sent(struct oxh_host *host, const struct segment *segment)
{
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];

	return run(host, OXH_TAP_IN, in, make_out(in, segment), out);
}

static void receive_directly(struct oxh_host *host,
			     const struct segment *segment)
{
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];

	run(host, OXH_TAP_OUT, in, make_direct(in, segment), out);
}

static void expect_own(struct oxh_host *host, const struct segment *segment)
{
	uint64_t drops = outcome(host, OXH_DROP_ARRIVING);

	assert_false(is_sent(host, segment));
	assert_int_equal(outcome(host, OXH_DROP_ARRIVING), drops);
}

static void expect_held(struct oxh_host *host, const struct segment *segment)
{
	uint64_t drops = outcome(host, OXH_DROP_ARRIVING);

	assert_false(is_sent(host, segment));
	assert_int_equal(outcome(host, OXH_DROP_ARRIVING), drops + 1);
}

static struct oxh_host *host_with_new_tap(void)
{
	struct oxh_host *host = host_of_two();

	set_open_port(host, 1, 0);
	return host;
}

HOST_TEST(test_answers_wait_for_flows_of_a_vm_that_moves)
{
	const struct segment answer = {.flags = ACK};
	const struct segment other = {.flags = ACK, .client_port = 2000};
	struct oxh_flow flow = {.client = address(CLIENT),
				.client_port = CLIENT_PORT,
				.key = KEY};
	struct oxh_host *host;

	host = host_with_new_tap();
	assert_int_equal(ports_of(host)[0].arrives_until, HOST_AWAITED);
	expect_held(host, &answer);
	assert_int_equal(oxh_flows_add(host, &flow, 1, error), 1);
	assert_true(is_sent(host, &answer));
	expect_held(host, &other);
	end_host(host);
}

HOST_TEST(test_vm_has_arrived_after_some_time)
{
	const struct segment answer = {.flags = ACK};
	struct oxh_host *host;
	uint32_t until;

	host = host_with_new_tap();
	expect_held(host, &answer);
	until = ports_of(host)[0].arrives_until;
	expect_held(host, &answer);
	assert_int_equal(ports_of(host)[0].arrives_until, until);
	ports_of(host)[0].arrives_until = until - HOST_ARRIVAL_UNITS - 1;
	expect_own(host, &answer);
	assert_int_equal(ports_of(host)[0].arrives_until, 0);
	/* other rules with the same tap */
	set_open_port(host, 1, 7);
	expect_own(host, &answer);
	end_host(host);
}

/* Neither direct traffic of another port nor its flows. */
HOST_TEST(test_another_port_takes_nothing_from_a_direct_connection)
{
	const struct segment answer = {.flags = ACK};
	struct oxh_host *host;

	host = host_with_new_tap();
	ports_of(host)[1].arrives_until = HOST_AWAITED;
	receive_directly(host, &answer);
	for (uint16_t i = 0; i < 1000; i++) {
		const struct segment flood = {.fixed = OTHER_FIXED,
					      .client_port = 2000 + i,
					      .flags = ACK};

		receive_directly(host, &flood);
	}
	expect_own(host, &answer);
	end_host(host);
}

RUN_TESTS(enter_host_namespace, NULL)
