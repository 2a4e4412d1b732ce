// SPDX-License-Identifier: Apache-2.0
/* Ports with many flows leave places to ports with few. */
#include "host_harness.h"

#define SETS 1024
#define PLACES (SETS * HOST_FLOW_WAYS)
#define SOME (PLACES / HOST_SOME_FLOWS)
#define MANY (PLACES / HOST_MANY_FLOWS)
/* Two places of each set are left. */
#define LARGEST (SETS * (HOST_FLOW_WAYS - 2))
#define PORTS 4
#define TRIES 12000

static const struct oxh_sizes sizes = {
	.entries = PORTS, .ports = PORTS, .flows = PLACES / 2};

static const char *const fixed[PORTS] = {"10.7.0.1", "10.7.0.2", "10.7.0.3",
					 "10.7.0.4"};

/* Each has an address, a tap and a listener's key of its own. Key and number of
 * the port are its index here plus 1. */
static void begin_with_ports(void)
{
	fresh_host(&sizes);
	assert_int_equal(host->count[MAP_FLOWS], SETS);
	for (int i = 0; i < PORTS; i++) {
		struct oxh_entry entry = entry_of(i + 1, i + 1);

		entry.fixed = address(fixed[i]);
		set_open_port(i + 1, 0);
		set_entry(&entry);
	}
}

static uint32_t flows_of(int i)
{
	struct oxh_port port = port_of(i + 1);
	int count = oxh_port_flows_list(host, port.id, NULL, 0, error);

	assert_in_range(count, 0, PLACES);
	return count;
}

static void flood(int i, int tries)
{
	for (int port = 0; port < tries; port++) {
		const struct segment segment = {.fixed = fixed[i],
						.client_port = 1024 + port};

		establish_with(i + 1, &segment);
	}
}

HOST_TEST(test_single_port_leaves_two_places_per_set)
{
	begin_with_ports();
	flood(0, TRIES);
	/* nearly all others: a flow has two sets */
	assert_in_range(flows_of(0), LARGEST * 95 / 100, LARGEST);
	assert_int_equal(outcome(OXH_FLOWS_FULL), TRIES - flows_of(0));
}

HOST_TEST(test_ports_together_leave_places_to_one_with_few_flows)
{
	uint32_t last = PORTS - 1;

	begin_with_ports();
	for (uint32_t i = 0; i < last; i++)
		flood(i, TRIES);
	/* what they may take until they have many */
	assert_true(oxh_flows_list(host, OXH_CONFIRMED, NULL, 0, error) <=
		    LARGEST + (int)last * (MANY + 1));
	/* some flows find both sets taken by the others */
	flood(last, MANY);
	assert_in_range(flows_of(last), MANY * 9 / 10, MANY);
}

/* Take all places of a set but one, as active flows would. */
static void take_others(struct host_flow_set *set)
{
	uint64_t state = now_in_units() << HOST_FLOW_TIME_SHIFT |
			 HOST_FLOW_ANSWERED | HOST_NO_PLACE;

	for (int way = 1; way < HOST_FLOW_WAYS; way++)
		*host_state(set, way) = state;
}

HOST_TEST(test_last_place_is_for_ports_with_few_flows)
{
	struct host_flow_set *sets;

	begin_with_ports();
	sets = host->memory[MAP_FLOWS];
	for (int i = 0; i < SETS; i++)
		take_others(&sets[i]);
	for (int i = 0; i < PORTS; i++) {
		flood(i, 4 * SOME);
		assert_int_equal(flows_of(i), SOME + 1);
	}
}

HOST_TEST(test_moved_flows_leave_as_many_places)
{
	static struct oxh_flow flows[TRIES];
	int added;

	for (int i = 0; i < TRIES; i++)
		flows[i] = (struct oxh_flow){.key = 1,
					     .client = address(CLIENT),
					     .client_port = 1024 + i};
	begin_with_ports();
	added = oxh_flows_add(host, flows, TRIES, error);
	assert_in_range(added, LARGEST * 95 / 100, LARGEST);
	assert_int_equal(flows_of(0), added);
}

RUN_TESTS(enter_host_namespace, NULL)
