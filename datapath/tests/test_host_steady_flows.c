// SPDX-License-Identifier: Apache-2.0
/* Packets of flows in steady state skip most of the lookup, and are decided as
 * by all of it. */
#include "host_harness.h"
#include "state.h"

/* Two sets. */
static const struct oxh_sizes small = {
	.entries = 4, .ports = 2, .flows = 1, .half_open = 1};
static const struct segment amid = {.flags = ACK};

static struct oxh_host *host_with_flow(void)
{
	struct oxh_entry entry = entry_of(KEY, 1);
	struct oxh_host *host = fresh_host(&small);

	set_open_port(host, 1, 0);
	set_entry(host, &entry);
	establish(host, &amid);
	return host;
}

/* Only known flows get through. */
static void close_port(struct oxh_host *host)
{
	memset(host->memory[MAP_HALF_OPEN], 0, host->size[MAP_HALF_OPEN]);
	ports_of(host)[0].flags &= ~HOST_PORT_OPEN;
}

static bool comes_in(struct oxh_host *host, uint32_t key,
		     const struct segment *segment)
{
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];

	return run(host, OXH_NIC, in, make_in(in, key, segment), out);
}

static bool goes_out(struct oxh_host *host, const struct segment *segment)
{
	static uint8_t in[OXH_FRAME_MAX], out[OXH_FRAME_MAX];

	return run(host, OXH_TAP_IN, in, make_out(in, segment), out);
}

/* All flows were refreshed so long ago. */
static void age_flows(struct oxh_host *host, uint32_t age)
{
	const uint64_t bits = (uint64_t)HOST_FLOW_TIME_MASK
			      << HOST_FLOW_TIME_SHIFT;
	uint64_t then = (uint64_t)(now_in_units() - age)
			<< HOST_FLOW_TIME_SHIFT;
	struct host_flow_set *sets = host->memory[MAP_FLOWS];

	for (uint32_t i = 0; i < host->count[MAP_FLOWS]; i++)
		for (int way = 0; way < HOST_FLOW_WAYS; way++) {
			__u64 *state = host_state(&sets[i], way);

			if (*state)
				*state = (*state & ~bits) | (then & bits);
		}
}

HOST_TEST(test_known_flow_passes_a_closed_port)
{
	const struct segment unknown = {.client_port = 2000, .flags = ACK};
	struct oxh_host *host = host_with_flow();

	close_port(host);
	assert_true(comes_in(host, KEY, &amid));
	assert_true(goes_out(host, &amid));
	assert_false(comes_in(host, KEY, &unknown));
	assert_false(goes_out(host, &unknown));
	end_host(host);
}

/* Within a sixteenth of its idle time, but beyond that of a closing flow. */
HOST_TEST(test_closing_flow_ends_early)
{
	const struct segment end = {.flags = FIN | ACK};

	for (int by_client = 0; by_client < 2; by_client++) {
		struct oxh_host *host = host_with_flow();

		age_flows(host, 200);
		close_port(host);
		assert_true(comes_in(host, KEY, &amid));
		assert_true(by_client ? comes_in(host, KEY, &end)
				      : goes_out(host, &end));
		age_flows(host, 200);
		assert_false(goes_out(host, &amid));
		assert_false(comes_in(host, KEY, &amid));
		end_host(host);
	}
}

HOST_TEST(test_flow_goes_with_its_entry)
{
	struct oxh_entry other = entry_of(KEY, 1);
	struct oxh_host *host = host_with_flow();

	assert_int_equal(oxh_entry_delete(host, KEY, error), 0);
	/* at its place, another listener for the same port of the member */
	other.vip_port = LISTENER + 1;
	set_entry(host, &other);
	close_port(host);
	assert_false(goes_out(host, &amid));
	end_host(host);
}

HOST_TEST(test_another_listeners_packet_is_not_of_the_flow)
{
	const struct segment other = {.vip = "192.0.2.2", .flags = ACK};
	struct oxh_entry entry = entry_of(KEY + 1, 1);
	struct oxh_host *host = host_with_flow();

	entry.vip = address(other.vip);
	set_entry(host, &entry);
	assert_false(comes_in(host, KEY + 1, &other));
	assert_int_equal(outcome(host, OXH_DROP_COLLISION), 1);
	assert_true(comes_in(host, KEY, &amid));
	end_host(host);
}

HOST_TEST(test_flow_is_judged_again_after_a_change_of_rules)
{
	for (int inwards = 0; inwards < 2; inwards++) {
		struct oxh_host *host = host_with_flow();

		ports_of(host)[0].generation++;
		assert_true(inwards ? comes_in(host, KEY, &amid)
				    : goes_out(host, &amid));
		ports_of(host)[0].generation++;
		close_port(host);
		assert_false(inwards ? comes_in(host, KEY, &amid)
				     : goes_out(host, &amid));
		assert_int_equal(outcome(host, OXH_DROP_NOT_ALLOWED), 1);
		end_host(host);
	}
}

RUN_TESTS(enter_host_namespace, NULL)
