// SPDX-License-Identifier: Apache-2.0
/* Flows that a hypervisor receives for ports that have moved to it. */
#include <errno.h>

#include "host_harness.h"

/* One set and an alternative: 16 places. */
static const struct oxh_sizes small = {
	.entries = 4, .ports = 2, .flows = 1, .half_open = 1};
#define PLACES 16

#define OTHER_VIP "192.0.2.2"

/* Two listeners for one port of the member: KEY and KEY + 1. */
static void begin_with_two(const struct oxh_sizes *sizes,
			   const struct oxh_port *port)
{
	struct oxh_entry one = entry_of(KEY, 1), other = entry_of(KEY + 1, 1);

	fresh_host(sizes);
	assert_ok(oxh_port_set(host, port, NULL, 0, error));
	other.vip = address(OTHER_VIP);
	set_entry(&one);
	set_entry(&other);
}

static struct oxh_flow moved_flow(uint32_t key, uint16_t client_port)
{
	return (struct oxh_flow){.client = address(CLIENT),
				 .client_port = client_port,
				 .key = key};
}

static size_t push(uint8_t *out)
{
	const struct segment data = {.flags = ACK};

	return send_out(&data, out);
}

HOST_TEST(test_moved_flows_are_known)
{
	const struct segment data = {.flags = ACK, .vip = OTHER_VIP};
	struct oxh_flow flows[] = {moved_flow(KEY + 1, CLIENT_PORT),
				   moved_flow(KEY + 2, 2000),
				   moved_flow(KEY, 0)};
	static uint8_t out[OXH_FRAME_MAX];
	struct oxh_address vip = address(OTHER_VIP);
	struct oxh_port port = port_of(1);

	begin_with_two(&small, &port);
	assert_int_equal(push(out), 0);
	/* unknown keys and ports are skipped */
	assert_int_equal(oxh_flows_add(host, flows, 3, error), 1);
	assert_int_equal(push(out), 14 + 42);
	assert_memory_equal(out + 14 + 12, vip.bytes + 12, 4);
	/* known already, whichever listener it is sent for */
	flows[0].key = KEY;
	assert_ok(oxh_flows_add(host, flows, 1, error));
	assert_true(send_in(KEY + 1, &data, out));
	assert_int_equal(oxh_port_flows_list(host, port.id, flows, 3, error),
			 1);
	assert_int_equal(flows[0].key, KEY + 1);
	assert_int_equal(flows[0].client_port, CLIENT_PORT);
	assert_false(flows[0].outdated);
	port.id[0]++;
	assert_int_equal(oxh_port_flows_list(host, port.id, flows, 3, error),
			 -ENOENT);
}

HOST_TEST(test_moved_flows_are_judged_again)
{
	struct oxh_flow flow = moved_flow(KEY, CLIENT_PORT);
	static uint8_t out[OXH_FRAME_MAX];
	struct oxh_port port = port_of(1);

	port.open = 0;
	begin_with_two(&small, &port);
	assert_int_equal(oxh_flows_add(host, &flow, 1, error), 1);
	assert_int_equal(push(out), 0);
	assert_int_equal(outcome(OXH_DROP_NOT_ALLOWED), 1);
	assert_ok(oxh_port_flows_list(host, port.id, NULL, 0, error));
}

HOST_TEST(test_moved_flows_take_no_place_of_others)
{
	struct oxh_port port = port_of(1);
	struct oxh_flow flows[200];
	uint32_t number;

	port.flows_max = 3;
	for (uint16_t i = 0; i < 200; i++)
		flows[i] = moved_flow(KEY, 3000 + i);
	begin_with_two(&small, &port);
	assert_int_equal(oxh_flows_add(host, flows, 200, error), 3);
	port.flows_max = 0;
	begin_with_two(&small, &port);
	for (int i = 0; i < 200; i++) {
		const struct segment segment = {.client_port = 2000 + i};

		establish(&segment);
	}
	number = oxh_port_flows_list(host, port.id, NULL, 0, error);
	assert_in_range(number, 1, PLACES);
	assert_true(oxh_flows_add(host, flows, 200, error) <=
		    (int)(PLACES - number));
	assert_true(oxh_port_flows_list(host, port.id, NULL, 0, error) >=
		    (int)number);
}

#define MANY 65536

/* Without a limit of the port only flows that find no place are left out. */
HOST_TEST(test_nearly_empty_table_has_a_place_for_each)
{
	const struct oxh_sizes sizes = {.entries = 4, .ports = 2};
	struct oxh_flow *flows = calloc(MANY, sizeof(*flows));
	struct oxh_port port = port_of(1);

	assert_non_null(flows);
	for (uint32_t i = 0; i < MANY; i++) {
		flows[i] = moved_flow(KEY, 1024 + i % 4096);
		flows[i].client.bytes[14] = i / 4096;
	}
	begin_with_two(&sizes, &port);
	assert_int_equal(oxh_flows_add(host, flows, MANY, error), MANY);
	assert_int_equal(oxh_port_flows_list(host, port.id, NULL, 0, error),
			 MANY);
	/* unchanged, and not duplicated */
	assert_ok(oxh_flows_add(host, flows, MANY, error));
	free(flows);
}

RUN_TESTS(enter_host_namespace, NULL)
