// SPDX-License-Identifier: Apache-2.0
/* Packets of flows in steady state skip most of the lookup, and are decided as
 * by all of it. */
#include "host_harness.h"

/* Two sets. */
static const struct oxh_sizes small = {
	.entries = 4, .ports = 2, .flows = 1, .half_open = 1};
static const struct segment amid = {.flags = ACK};

static void begin_with_flow(void)
{
	fresh_listener(&small, 0);
	establish(&amid);
}

/* Only known flows get through. */
static void close_port(void)
{
	memset(host->memory[MAP_HALF_OPEN], 0, host->size[MAP_HALF_OPEN]);
	ports_of(host)[0].flags &= ~HOST_PORT_OPEN;
}

/* All flows were refreshed so long ago. */
static void age_flows(uint32_t age)
{
	const __u64 bits = (__u64)HOST_FLOW_TIME_MASK << HOST_FLOW_TIME_SHIFT;
	__u64 then = (__u64)(now_in_units() - age) << HOST_FLOW_TIME_SHIFT;

	FOR_EACH_FLOW(place)
		*state_at(place) = (*state_at(place) & ~bits) | (then & bits);
}

HOST_TEST(test_known_flow_passes_a_closed_port)
{
	const struct segment unknown = {.client_port = 2000, .flags = ACK};

	begin_with_flow();
	close_port();
	assert_true(send_in(KEY, &amid, NULL));
	assert_true(send_out(&amid, NULL));
	assert_false(send_in(KEY, &unknown, NULL));
	assert_false(send_out(&unknown, NULL));
}

/* Within a sixteenth of its idle time, but beyond that of a closing flow. */
HOST_TEST(test_closing_flow_ends_early)
{
	const struct segment end = {.flags = FIN | ACK};

	for (int by_client = 0; by_client < 2; by_client++) {
		begin_with_flow();
		age_flows(200);
		close_port();
		assert_true(send_in(KEY, &amid, NULL));
		assert_true(by_client ? send_in(KEY, &end, NULL)
				      : send_out(&end, NULL));
		age_flows(200);
		assert_false(send_out(&amid, NULL));
		assert_false(send_in(KEY, &amid, NULL));
	}
}

HOST_TEST(test_flow_goes_with_its_entry)
{
	struct oxh_entry other = entry_of(KEY, 1);

	begin_with_flow();
	assert_ok(oxh_entry_delete(host, KEY, error));
	/* at its place, another listener for the same port of the member */
	other.vip_port = LISTENER + 1;
	set_entry(&other);
	close_port();
	assert_false(send_out(&amid, NULL));
}

HOST_TEST(test_another_listeners_packet_is_not_of_the_flow)
{
	const struct segment other = {.vip = "192.0.2.2", .flags = ACK};
	struct oxh_entry entry = entry_of(KEY + 1, 1);

	begin_with_flow();
	entry.vip = address(other.vip);
	set_entry(&entry);
	assert_false(send_in(KEY + 1, &other, NULL));
	assert_int_equal(outcome(OXH_DROP_COLLISION), 1);
	assert_true(send_in(KEY, &amid, NULL));
}

HOST_TEST(test_flow_is_judged_again_after_a_change_of_rules)
{
	for (int inwards = 0; inwards < 2; inwards++) {
		begin_with_flow();
		ports_of(host)[0].generation++;
		assert_true(inwards ? send_in(KEY, &amid, NULL)
				    : send_out(&amid, NULL));
		ports_of(host)[0].generation++;
		close_port();
		assert_false(inwards ? send_in(KEY, &amid, NULL)
				     : send_out(&amid, NULL));
		assert_int_equal(outcome(OXH_DROP_NOT_ALLOWED), 1);
	}
}

RUN_TESTS(enter_host_namespace, NULL)
