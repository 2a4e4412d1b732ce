// SPDX-License-Identifier: Apache-2.0
/* Inspecting a node leaves no trace in it and shows what packets meet. */
#include <errno.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "fixture.h"
#include "forward.skel.h"

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

static struct oxp_decision decisions[OXP_DECISIONS_MAX];

/* Runs a frame of a flow and reads the decisions on it. Returns how many. */
static int decide(struct oxp_simulation *simulation, const struct flow *flow,
		  const struct variation *variation)
{
	struct frame frame;
	int count;

	make_frame(&frame, flow, 8, variation);
	run_in(simulation, &frame, NULL, NULL);
	memset(decisions, 0xff, sizeof(decisions));
	count = oxp_simulation_decisions_get(simulation, decisions, error);
	if (count < 0)
		fail_msg("decisions: %s", error);
	return count;
}

/* The arguments of the last frame's decision of this kind; NULL: none. */
static const uint32_t *decided(enum oxp_decision_kind kind)
{
	for (int i = 0; i < OXP_DECISIONS_MAX; i++)
		if (decisions[i].kind == kind)
			return decisions[i].argument;
	return NULL;
}

static void expect_decided(enum oxp_decision_kind kind, uint32_t argument)
{
	const uint32_t *arguments = decided(kind);

	assert_non_null(arguments);
	assert_int_equal(arguments[0], argument);
}

/* In OXP_DECIDED_SLOT. */
enum {
	UNDECIDED = 2,
	OPEN,
	NOW,
	BEFORE
};

static struct flow moving_flow(struct oxp_simulation *simulation)
{
	struct flow flow = web;
	const uint32_t *slot;

	do {
		flow.source_port++;
		decide(simulation, &flow, NULL);
		slot = decided(OXP_DECIDED_SLOT);
		assert_non_null(slot);
	} while (!slot[OPEN] || slot[NOW] == slot[BEFORE]);
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

TEST(test_decisions_are_recorded_in_their_order)
{
	static const uint32_t kinds[] = {
		OXP_DECIDED_SERVICE, OXP_DECIDED_SLOT, OXP_DECIDED_MEMBER,
		OXP_DECIDED_UPLINK,  OXP_DECIDED_SIZE,
	};
	struct variation split = {.fragment = 0x2000};
	struct oxp_simulation *simulation = simulate();
	struct flow elsewhere = web;

	for (int i = 0; i < 2; i++) {
		/* each frame has a record of its own */
		assert_int_equal(decide(simulation, &web, NULL), 5);
		for (int k = 0; k < 5; k++)
			assert_int_equal(decisions[k].kind, kinds[k]);
	}
	expect_decided(OXP_DECIDED_SERVICE, 0);
	assert_int_equal(decided(OXP_DECIDED_SLOT)[1], TEST_SLOTS);
	assert_false(decided(OXP_DECIDED_SLOT)[UNDECIDED]);
	expect_decided(OXP_DECIDED_MEMBER, 0);
	/* IPv4 and TCP with 8 bytes, in IPv4 */
	expect_decided(OXP_DECIDED_SIZE, 48);
	assert_int_equal(decided(OXP_DECIDED_SIZE)[1], 20);
	/* the slow path */
	decide(simulation, &dns, &split);
	expect_decided(OXP_DECIDED_SERVICE, 1);
	assert_non_null(decided(OXP_DECIDED_FIRST_FRAGMENT));
	expect_decided(OXP_DECIDED_MEMBER, 0);
	elsewhere.destination_port = 81;
	assert_int_equal(decide(simulation, &elsewhere, NULL), 0);
	oxp_simulation_close(simulation);
}

static void read_program(struct bpf_prog_info *info)
{
	__u32 length = sizeof(*info);

	assert_int_equal(bpf_obj_get_info_by_fd(program, info, &length), 0);
}

static bool loads(const struct bpf_insn *instruction, uint32_t map,
		  uint32_t offset)
{
	return instruction->code == (BPF_LD | BPF_DW | BPF_IMM) &&
	       instruction->src_reg == BPF_PSEUDO_MAP_VALUE &&
	       (uint32_t)instruction->imm == map &&
	       (uint32_t)instruction[1].imm == offset;
}

/* The id of a program's map by the end of its name. */
static uint32_t map_id(const char *end)
{
	uint32_t ids[MAPS + 16], found = 0;
	struct bpf_prog_info info = {.nr_map_ids = MAPS + 16,
				     .map_ids = (uintptr_t)ids};

	read_program(&info);
	for (uint32_t i = 0; i < info.nr_map_ids; i++) {
		struct bpf_map_info map = {};
		__u32 length = sizeof(map);
		int fd = bpf_map_get_fd_by_id(ids[i]);

		assert_int_equal(bpf_obj_get_info_by_fd(fd, &map, &length), 0);
		close(fd);
		if (strlen(map.name) >= strlen(end) &&
		    !strcmp(map.name + strlen(map.name) - strlen(end), end))
			found = ids[i];
	}
	assert_int_not_equal(found, 0);
	return found;
}

/* The verifier has removed it, and the fast path does not even ask. */
TEST(test_attached_program_records_nothing)
{
	static struct bpf_insn code[65536];
	struct bpf_func_info functions[2];
	struct forward *object = forward__open();
	struct bpf_prog_info info = {
		.xlated_prog_len = sizeof(code),
		.xlated_prog_insns = (uintptr_t)code,
		.nr_func_info = 2,
		.func_info_rec_size = sizeof(functions[0]),
		.func_info = (uintptr_t)functions,
	};
	uint32_t record = map_id(".data.record");
	uint32_t constants = map_id(".rodata"), reads = 0;
	uint32_t offset = (const char *)&object->rodata->records -
			  (const char *)object->rodata;

	forward__destroy(object);
	read_program(&info);
	assert_in_range(info.xlated_prog_len, 1, sizeof(code) - 1);
	for (uint32_t i = 0; i < info.xlated_prog_len / sizeof(code[0]); i++) {
		if (code[i].code == (BPF_LD | BPF_DW | BPF_IMM))
			assert_int_not_equal(code[i].imm, record);
		if (!loads(&code[i], constants, offset))
			continue;
		reads++;
		assert_true(i >= functions[1].insn_off);
	}
	/* the constant was looked for where it is */
	assert_int_not_equal(reads, 0);
}

TEST(test_simulation_knows_remembered_flows)
{
	struct oxp_simulation *simulation;
	struct frame frame;
	struct flow flow;

	open_slots();
	simulation = simulate();
	flow = moving_flow(simulation);
	assert_int_equal(decided(OXP_DECIDED_SLOT)[BEFORE], 0);
	assert_int_equal(decided(OXP_DECIDED_SLOT)[NOW], 1);
	assert_non_null(decided(OXP_DECIDED_NOT_REMEMBERED));
	expect_decided(OXP_DECIDED_TAKEN_OLD, 0);
	expect_decided(OXP_DECIDED_MEMBER, 0);
	oxp_simulation_close(simulation);

	make_frame(&frame, &flow, 0, &syn);
	run(program, &frame, NULL);
	simulation = simulate();
	for (uint32_t confirmed = 0; confirmed < 2; confirmed++) {
		decide(simulation, &flow, NULL);
		expect_decided(OXP_DECIDED_REMEMBERED, 1);
		assert_int_equal(decided(OXP_DECIDED_REMEMBERED)[2], confirmed);
		expect_decided(OXP_DECIDED_TAKEN_REMEMBERED, 1);
		expect_decided(OXP_DECIDED_MEMBER, 1);
	}
	oxp_simulation_close(simulation);
}

TEST(test_simulation_knows_remembered_fragments)
{
	struct variation first = {.fragment = 0x2000, .id = 7};
	struct variation later = {.fragment = 100, .id = 7};
	struct oxp_simulation *simulation;
	struct frame frame;

	simulation = simulate();
	decide(simulation, &dns, &later);
	assert_non_null(decided(OXP_DECIDED_NOT_FOLLOWED));
	assert_null(decided(OXP_DECIDED_FOLLOWED));
	oxp_simulation_close(simulation);
	make_frame(&frame, &dns, 8, &first);
	run(program, &frame, NULL);
	simulation = simulate();
	decide(simulation, &dns, &later);
	expect_decided(OXP_DECIDED_FOLLOWED, 1);
	assert_int_equal(decided(OXP_DECIDED_FOLLOWED)[1], 0);
	assert_null(decided(OXP_DECIDED_NOT_FOLLOWED));
	later.id = 8;
	decide(simulation, &dns, &later);
	assert_non_null(decided(OXP_DECIDED_NOT_FOLLOWED));
	oxp_simulation_close(simulation);
}

TEST(test_simulation_knows_tokens_of_sources)
{
	/* too slow to gain a token during the test */
	const struct oxp_service_settings settings = {.new_flow_rate = 1,
						      .new_flow_burst = 600};
	struct oxp_key name = udp_key(VIP, 53);
	struct oxp_simulation *simulation;
	struct flow other = dns;
	struct frame frame;

	set_with_one_member(node, name, settings);
	make_frame(&frame, &dns, 0, NULL);
	for (int i = 0; i < 300; i++)
		run(program, &frame, NULL);
	simulation = simulate();
	decide(simulation, &dns, NULL);
	assert_in_range(decided(OXP_DECIDED_RATE)[0] / 1024, 300, 599);
	other.source = "198.51.100.8";
	decide(simulation, &other, NULL);
	expect_decided(OXP_DECIDED_RATE, 600 * 1024);
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
