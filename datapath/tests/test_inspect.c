// SPDX-License-Identifier: Apache-2.0
/* Inspecting a node leaves no trace in it and shows what packets meet. */
#include <errno.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "fixture.h"

/* Everything that packets change, as bytes. */
struct memory {
	struct oxp_outcome_counters outcomes[OXP_OUTCOMES];
	struct service_counts services[2];
	struct oxp_counters members[2];
	uint8_t ages[2][TEST_SLOTS];
	/* flows, fragments, sources: sums of products, so that moves show */
	uint64_t sums[3];
};

static uint64_t sum_of(int map, size_t count)
{
	uint64_t sum = 0;
	uint64_t *word = mmap(NULL, 8 * count, PROT_READ, MAP_SHARED, map, 0);

	assert_ptr_not_equal(word, MAP_FAILED);
	for (size_t i = 0; i < count; i++)
		sum += word[i] * (i + 1);
	munmap(word, 8 * count);
	return sum;
}

static void save_memory(struct memory *memory)
{
	memset(memory, 0, sizeof(*memory));
	assert_int_equal(
		oxp_outcomes_list(node, memory->outcomes, OXP_OUTCOMES, error),
		OXP_OUTCOMES);
	for (int i = 0; i < 2; i++) {
		read_service_counts(node, i, &memory->services[i]);
		read_member_counters(node, i, &memory->members[i]);
		memcpy(memory->ages[i], ages_of(node, live_block(node, i)),
		       TEST_SLOTS);
	}
	memory->sums[0] = sum_of(node->map[MAP_FLOWS], node->config->flows_max);
	memory->sums[1] = sum_of(node->map[MAP_FRAGMENTS],
				 FRAGMENT_SETS * sizeof(struct shared_set) / 8);
	memory->sums[2] = sum_of(node->map[MAP_SOURCES],
				 SOURCE_SETS * sizeof(struct shared_set) / 8);
}

static struct oxp_simulation *simulate(void)
{
	struct oxp_simulation *simulation;
	uint8_t tag[8];

	assert_ok(oxp_simulation_open(node, &simulation, tag, error));
	return simulation;
}

static uint32_t run_in(struct oxp_simulation *simulation, struct frame *in,
		       struct frame *out, uint64_t *outcomes)
{
	uint64_t unused[OXP_OUTCOMES];
	struct frame ignored;
	struct oxp_frame frame = {
		.data = in->data,
		.length = in->length,
		.out = out ? out->data : ignored.data,
		.capacity = FRAME_MAX,
	};

	assert_ok(oxp_simulation_run(simulation, &frame,
				     outcomes ? outcomes : unused, error));
	if (out)
		out->length = frame.out_length;
	return frame.action;
}

/* Two members, the second one just added: half of the slots are open. New flows
 * of the two frames go to the second one. */
static void open_slots(void)
{
	struct oxp_key http = tcp_key(VIP, 80);
	struct oxp_member members[2];

	make_members(members, 2, 0, 0);
	set_service(node, &http, members, 2);
	assert_true(live_block(node, 0)->open);
}

static struct oxp_packet packet_of(const struct flow *flow)
{
	return (struct oxp_packet){
		.source = address(flow->source),
		.destination = address(flow->destination),
		.source_port = flow->source_port,
		.destination_port = flow->destination_port,
		.protocol = flow->protocol,
	};
}

static struct oxp_selection select_in(struct oxp_simulation *simulation,
				      const struct flow *flow)
{
	struct oxp_key http = tcp_key(VIP, 80);
	struct oxp_packet packet = packet_of(flow);
	struct oxp_selection selection;

	assert_ok(oxp_simulation_select(simulation, &http, &packet, &selection,
					error));
	return selection;
}

static struct flow moving_flow(struct oxp_simulation *simulation)
{
	struct flow flow = web;
	struct oxp_selection selection;

	do {
		flow.source_port++;
		selection = select_in(simulation, &flow);
	} while (!selection.open || selection.now == selection.before);
	return flow;
}

static const struct variation syn = {.tcp_flags = 2};

TEST(test_simulation_changes_nothing_in_the_node)
{
	const struct oxp_service_settings settings = {.new_flow_rate = 10};
	struct variation first = {.fragment = 0x2000, .id = 7};
	struct oxp_simulation *simulation;
	static struct memory before, after;
	uint64_t outcomes[OXP_OUTCOMES];
	struct frame frame, out;
	struct flow flow;

	set_with_one_member(node, key_of(&dns), settings);
	open_slots();
	for (int i = 0; i < 2; i++)
		memset(ages_of(node, live_block(node, i)), 3, TEST_SLOTS);
	save_memory(&before);
	simulation = simulate();
	flow = moving_flow(simulation);

	make_frame(&frame, &flow, 0, &syn);
	assert_int_equal(run_in(simulation, &frame, &out, outcomes), XDP_TX);
	expect_encapsulated(&frame, &out, "10.1.0.2");
	for (int i = 0; i < OXP_OUTCOMES; i++)
		assert_int_equal(outcomes[i], 0);
	make_frame(&frame, &flow, 0, NULL);
	/* the simulation itself remembers */
	assert_int_equal(run_in(simulation, &frame, &out, NULL), XDP_TX);
	expect_encapsulated(&frame, &out, "10.1.0.2");
	flow.source_port++;
	make_frame(&frame, &dns, 8, &first);
	assert_int_equal(run_in(simulation, &frame, NULL, NULL), XDP_TX);
	frame.length = 40;
	assert_int_equal(run_in(simulation, &frame, NULL, outcomes), XDP_DROP);
	assert_int_equal(outcomes[OXP_DROP_MALFORMED], 1);
	oxp_simulation_close(simulation);

	save_memory(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	/* prove that the comparison would notice */
	make_frame(&frame, &dns, 8, &first);
	run(program, &frame, NULL);
	save_memory(&after);
	assert_int_equal(after.services[1].counters.packets,
			 before.services[1].counters.packets + 1);
	for (int i = 1; i < 3; i++)
		assert_int_not_equal(after.sums[i], before.sums[i]);
}

TEST(test_simulation_knows_remembered_flows)
{
	struct oxp_simulation *simulation;
	struct oxp_selection selection;
	struct frame frame, out;
	struct flow flow;

	open_slots();
	simulation = simulate();
	flow = moving_flow(simulation);
	selection = select_in(simulation, &flow);
	assert_int_equal(selection.remembered, OXP_NO_MEMBER);
	assert_int_equal(selection.before, 0);
	assert_int_equal(selection.now, 1);
	make_frame(&frame, &flow, 0, NULL);
	run_in(simulation, &frame, &out, NULL);
	expect_encapsulated(&frame, &out, "10.1.0.1");
	oxp_simulation_close(simulation);

	make_frame(&frame, &flow, 0, &syn);
	run(program, &frame, NULL);
	simulation = simulate();
	selection = select_in(simulation, &flow);
	assert_int_equal(selection.remembered, 1);
	assert_false(selection.confirmed);
	make_frame(&frame, &flow, 0, NULL);
	run_in(simulation, &frame, &out, NULL);
	expect_encapsulated(&frame, &out, "10.1.0.2");
	assert_true(select_in(simulation, &flow).confirmed);
	oxp_simulation_close(simulation);
}

TEST(test_simulation_knows_remembered_fragments)
{
	struct variation first = {.fragment = 0x2000, .id = 7};
	struct variation later = {.fragment = 100, .id = 7};
	struct oxp_packet packet = packet_of(&dns);
	struct oxp_simulation *simulation;
	uint64_t outcomes[OXP_OUTCOMES];
	struct frame frame;
	struct oxp_key key;
	uint16_t member;

	packet.later = 1;
	packet.fragment_id = 7;
	packet.fragment_protocol = IPPROTO_UDP;
	simulation = simulate();
	assert_int_equal(oxp_simulation_fragment_find(simulation, &packet, &key,
						      &member, error),
			 -ENOENT);
	oxp_simulation_close(simulation);
	make_frame(&frame, &dns, 8, &first);
	run(program, &frame, NULL);
	simulation = simulate();
	assert_ok(oxp_simulation_fragment_find(simulation, &packet, &key,
					       &member, error));
	assert_int_equal(key.port, 53);
	assert_int_equal(member, 0);
	make_frame(&frame, &dns, 8, &later);
	assert_int_equal(run_in(simulation, &frame, NULL, outcomes), XDP_TX);
	assert_int_equal(outcomes[OXP_FRAGMENT_GUESSED], 0);
	packet.fragment_id = 8;
	assert_int_equal(oxp_simulation_fragment_find(simulation, &packet, &key,
						      &member, error),
			 -ENOENT);
	oxp_simulation_close(simulation);
}

TEST(test_simulation_knows_tokens_of_sources)
{
	/* too slow to gain a token during the test */
	const struct oxp_service_settings settings = {.new_flow_rate = 1,
						      .new_flow_burst = 600};
	struct oxp_address client = address(CLIENT);
	struct oxp_key name = udp_key(VIP, 53);
	struct oxp_simulation *simulation;
	struct frame frame;
	uint64_t tokens;

	set_with_one_member(node, name, settings);
	make_frame(&frame, &dns, 0, NULL);
	for (int i = 0; i < 300; i++)
		run(program, &frame, NULL);
	simulation = simulate();
	assert_ok(oxp_simulation_tokens_get(simulation, &name, &client, &tokens,
					    error));
	assert_in_range(tokens / 1024, 300, 599);
	client = address("198.51.100.8");
	assert_ok(oxp_simulation_tokens_get(simulation, &name, &client, &tokens,
					    error));
	assert_int_equal(tokens, 600 * 1024);
	oxp_simulation_close(simulation);
}

TEST(test_settings_and_uplinks_are_listed_as_set)
{
	struct oxp_node_settings settings = {
		.source_v4 = address("10.0.0.0"),
		.source_v6 = address("fd00::"),
		.entropy_v4 = 7,
		.entropy_v6 = 31,
		.flags = OXP_NODE_CLAMP_MSS,
		.icmp_rate = 12,
	};
	struct oxp_uplink uplinks[2] = {
		{.ifindex = 1,
		 .mtu = 1500,
		 .own_mac = {2, 0, 0, 0, 0, 1},
		 .next_hop_mac_v4 = {2, 0, 0, 0, 0, 2},
		 .next_hop_mac_v6 = {2, 0, 0, 0, 0, 3},
		 .vlans = 2,
		 .vlan = {100, 0x2004}},
		{.ifindex = 1,
		 .mtu = 9000,
		 .own_mac = {2, 0, 0, 0, 0, 4},
		 .next_hop_mac_v4 = {2, 0, 0, 0, 0, 5}},
	};
	struct oxp_node_settings seen;
	struct oxp_uplink listed[2];
	struct oxp_choices choices;
	int second = 0;

	assert_ok(oxp_node_settings_set(node, &settings, error));
	assert_ok(oxp_node_settings_get(node, &seen, error));
	assert_memory_equal(&seen, &settings, sizeof(seen));
	assert_ok(oxp_uplinks_set(node, uplinks, 2, error));
	assert_int_equal(oxp_uplinks_list(node, listed, 1, NULL, error), 2);
	assert_int_equal(oxp_uplinks_list(node, listed, 2, &choices, error), 2);
	assert_memory_equal(listed, uplinks, sizeof(listed));
	for (int i = 0; i < 64; i++) {
		second += choices.v4[i] == 1;
		assert_int_equal(choices.v6[i], 0);
	}
	assert_int_equal(second, 32);
	assert_ok(oxp_uplinks_set(node, uplinks, 0, error));
	assert_ok(oxp_uplinks_list(node, listed, 2, &choices, error));
	assert_int_equal(choices.v4[63], OXP_NO_CHOICE);
	assert_ok(oxp_programs_list(node, NULL, 0, error));
}

TEST(test_all_faults_are_listed)
{
	struct oxp_fault faults[3] = {};

	assert_ok(oxp_faults_list(node, faults, 3, error));
	slots_of(live_block(node, 0))[5] = -1;
	live_block(node, 1)->member[0].flags |= MEMBER_BACKUP;
	live_block(node, 1)->member[0].flags &= ~MEMBER_TAKES_FLOWS;
	assert_int_equal(oxp_faults_list(node, faults, 1, error), 2);
	assert_int_equal(oxp_faults_list(node, faults, 3, error), 2);
	assert_int_equal(faults[0].key.port, 80);
	assert_int_equal(faults[0].key.protocol, IPPROTO_TCP);
	assert_true(faults[0].text[0]);
	assert_int_equal(faults[1].key.port, 53);
	assert_int_equal(faults[2].key.protocol, 0);
	assert_int_equal(oxp_test_verify(node, error), 2);
	assert_non_null(strstr(error, faults[0].text));
	assert_non_null(strstr(error, "80"));
}

RUN_TESTS(enter_namespace, NULL)
