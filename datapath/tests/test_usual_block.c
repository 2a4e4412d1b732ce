// SPDX-License-Identifier: Apache-2.0
/* The parts of a block that are prefetched before it is read. */
#include <linux/bpf.h>
#include <netinet/in.h>
#include <unistd.h>

#include "harness.h"

#define SERVICES 600
#define FEW 100
#define USUAL 400 /* with three members */
#define FLOWS 64

static struct oxp_node *node;

static int set_up(void **state)
{
	(void)state;
	node = open_sized("usual",
			  (struct oxp_options){.services_max = SERVICES,
					       .members_max = 5 * SERVICES,
					       .slots_max = TEST_SLOTS});
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_state(node);
	return 0;
}

/* Set services from `first` on, at ports of one VIP. */
static void set_services(uint32_t first, uint32_t count, uint32_t of_each)
{
	static struct oxp_wanted_service wanted[SERVICES];
	struct oxp_member members[5];

	make_members(members, of_each, 0, 0);
	for (uint32_t i = 0; i < count; i++)
		wanted[i] = (struct oxp_wanted_service){
			.key = tcp_key(VIP, 1000 + first + i),
			.members = members,
			.count = of_each,
		};
	if (oxp_services_set(node, wanted, count, error) < 0)
		fail_msg("services: %s", error);
}

static void tick(void)
{
	node->config->ticked -= 60000; /* ms */
	assert_true(oxp_slots_age(node, error) >= 0);
}

static void expect(uint32_t line, uint32_t slots)
{
	assert_int_equal(node->config->usual_slot_line, line);
	assert_int_equal(node->config->usual_slots, slots);
}

#define TEST(name) TEST_WITH(name, set_up, tear_down)

TEST(test_most_blocks_are_noted)
{
	set_services(0, FEW, 3);
	tick();
	expect(0, 0); /* few stay in caches */
	set_services(FEW, USUAL - FEW, 3);
	set_services(USUAL, SERVICES - USUAL, 5);
	tick();
	expect(LINES_BEFORE_SLOTS(3), TEST_SLOTS);
	set_services(0, USUAL, 4);
	tick();
	expect(LINES_BEFORE_SLOTS(4), TEST_SLOTS);
}

TEST(test_results_do_not_depend_on_the_usual_block)
{
	static const uint32_t noted[][2] = {
		{2, 1}, {11, 1021}, {64, 65521}, {UINT32_MAX, UINT32_MAX}};
	static struct frame in[FLOWS], wanted[FLOWS], out;
	const struct variation established = {.tcp_flags = 0x10};
	int program;

	set_services(0, SERVICES, 3);
	program = forward_program(node);
	for (int i = 0; i < FLOWS; i++) {
		const struct flow flow = {CLIENT, VIP, 40000 + i,
					  1000 + i * (SERVICES / FLOWS),
					  IPPROTO_TCP};

		make_frame(&in[i], &flow, 0, &established);
		assert_int_equal(run(program, &in[i], &wanted[i]), XDP_TX);
	}
	for (size_t j = 0; j < sizeof(noted) / sizeof(noted[0]); j++) {
		node->config->usual_slot_line = noted[j][0];
		node->config->usual_slots = noted[j][1];
		for (int i = 0; i < FLOWS; i++) {
			assert_int_equal(run(program, &in[i], &out), XDP_TX);
			assert_int_equal(out.length, wanted[i].length);
			assert_memory_equal(out.data, wanted[i].data,
					    out.length);
		}
	}
	close(program);
}

RUN_TESTS(enter_namespace, NULL)
