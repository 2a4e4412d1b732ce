// SPDX-License-Identifier: Apache-2.0
/*
 * Memory exactly as documented in lib/node/create.c and the administrator's
 * guide, and a node of the promised size: 10,000 services and 100,000 members.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "harness.h"

#define SERVICES 10000U
#define MEMBERS 10
#define NEEDED_KB (1UL << 20)
#define SERVICES_MOST 65536U

static uint64_t map_bytes(uint32_t services, uint32_t members, uint32_t flows)
{
	struct oxp_node *node = open_sized(
		"sized", (struct oxp_options){.services_max = services,
					      .members_max = members,
					      .flows_max = flows});
	struct oxp_info info;

	assert_ok(oxp_info_get(node, &info, error));
	assert_int_equal(info.services_max, services);
	assert_int_equal(info.members_max, members);
	assert_int_equal(info.slots_max, OXP_SLOTS_LIMIT);
	assert_int_equal(info.flows_max, flows);
	remove_state(node);
	return info.map_bytes;
}

/* The guide's formula; the kernel rounds maps up to whole pages. */
#define BYTES_OF_SERVICE(cpus) (418 + 16 + 64 * (cpus))
/* Two blocks of 1,021 slots and 10 members, and ages. */
#define BYTES_OF_TABLE (2 * (64 + 10 * 96 + 1024 + 128 + 1024) + 1024)
#define BYTES_OF_MEMBER(cpus) (16 + 32 * (cpus))
#define BYTES_OF_FLOW 8
#define MEGABYTES_OF_NODE 16 /* with the default of flows */

static void expect_each(uint64_t more, uint64_t less, uint32_t count,
			uint64_t each)
{
	uint64_t found = (more - less + count / 2) / count;

	if (found != each)
		fail_msg("%llu bytes each instead of %llu",
			 (unsigned long long)found, (unsigned long long)each);
}

/* At these sizes the kernel's powers of two are exact. */
PLAIN_TEST(test_bytes_of_maps_are_those_documented)
{
	int cpus = libbpf_num_possible_cpus(), major, minor;
	struct utsname kernel;
	uint64_t base, all;

	uname(&kernel);
	assert_int_equal(sscanf(kernel.release, "%d.%d", &major, &minor), 2);
	if (major < 6 || (major == 6 && minor < 4)) {
		print_message("Linux %d.%d knows its maps' memory only "
			      "roughly: skipped\n",
			      major, minor);
		skip();
	}
	base = map_bytes(1280, 4096, 1024);
	expect_each(map_bytes(2560, 4096, 1024), base, 1280,
		    BYTES_OF_SERVICE(cpus));
	expect_each(map_bytes(1280, 8192, 1024), base, 4096,
		    BYTES_OF_MEMBER(cpus));
	all = map_bytes(1280, 4096, 1 << 20);
	expect_each(all, base, (1 << 20) - 1024, BYTES_OF_FLOW);
	expect_each(all,
		    1280 * BYTES_OF_SERVICE(cpus) +
			    4096 * BYTES_OF_MEMBER(cpus),
		    1000000, MEGABYTES_OF_NODE);
}

static void fill(struct oxp_wanted_service *wanted, struct oxp_member *members)
{
	for (uint32_t i = 0; i < SERVICES; i++) {
		wanted[i] = (struct oxp_wanted_service){
			.key = tcp_key(VIP, 1 + i),
			.members = &members[i * MEMBERS],
			.count = MEMBERS,
		};
		for (uint32_t j = i * MEMBERS; j < (i + 1) * MEMBERS; j++) {
			members[j] = (struct oxp_member){
				.address = address("10.0.0.0"),
				.check = j + 1,
				.weight = 1,
				.admin_up = 1,
			};
			members[j].address.bytes[13] = j >> 16;
			members[j].address.bytes[14] = j >> 8;
			members[j].address.bytes[15] = j;
		}
	}
}

static void expect_counters(struct oxp_node *node, int program,
			    struct oxp_service *services)
{
	struct flow flow = {CLIENT, VIP, 40000, SERVICES, IPPROTO_TCP};
	struct frame frame;

	make_frame(&frame, &flow, 10, NULL);
	assert_int_equal(run(program, &frame, NULL), XDP_TX);
	assert_int_equal(oxp_services_list(node, services, SERVICES, error),
			 SERVICES);
	for (uint32_t i = 0; i < SERVICES; i++) {
		assert_int_equal(services[i].key.port, 1 + i);
		assert_int_equal(services[i].enabled, MEMBERS);
		assert_int_equal(services[i].counters.packets,
				 i == SERVICES - 1);
	}
}

static void use(struct oxp_node *node)
{
	struct oxp_wanted_service *wanted = calloc(SERVICES, sizeof(*wanted));
	struct oxp_member *members =
		calloc(SERVICES * MEMBERS, sizeof(*members));
	struct oxp_health_result *results =
		calloc(SERVICES * MEMBERS, sizeof(*results));
	struct oxp_service *services = calloc(SERVICES, sizeof(*services));
	struct oxp_wanted_service more;
	struct oxp_info info;
	int program;

	assert_non_null(wanted);
	assert_non_null(members);
	assert_non_null(results);
	assert_non_null(services);
	fill(wanted, members);
	if (oxp_services_set(node, wanted, SERVICES, error) != (int)SERVICES)
		fail_msg("set: %s", error);
	for (uint32_t i = 0; i < SERVICES * MEMBERS; i++)
		results[i] = (struct oxp_health_result){i + 1, 1};
	assert_int_equal(
		oxp_health_apply(node, results, SERVICES * MEMBERS, error),
		SERVICES);
	assert_ok(oxp_info_get(node, &info, error));
	assert_int_equal(info.services, SERVICES);
	assert_int_equal(info.members, SERVICES * MEMBERS);
	assert_true(info.map_bytes < 400 << 20);
	/* one segment is partly used, and ends of segments stay free */
	assert_in_range(node->config->segments,
			SERVICES * BYTES_OF_TABLE / SEGMENT_SIZE,
			SERVICES * BYTES_OF_TABLE / SEGMENT_SIZE + 2);
	print_message("%llu MB of maps\n",
		      (unsigned long long)info.map_bytes >> 20);
	program = forward_program(node);
	expect_counters(node, program, services);
	close(program);

	/* one more of either does not fit, and leaves nothing behind */
	more = wanted[0];
	more.key.port = SERVICES + 1;
	assert_int_equal(oxp_services_set(node, &more, 1, error), -ENOSPC);
	assert_non_null(strstr(error, "all 10000 services"));
	assert_int_equal(oxp_services_delete(node, &wanted[7].key, 1, error),
			 1);
	more.count = MEMBERS - 1;
	assert_int_equal(oxp_services_set(node, &more, 1, error), 1);
	more = wanted[8];
	more.members = &members[6 * MEMBERS]; /* 12 instead of 10 */
	more.count = MEMBERS + 2;
	assert_int_equal(oxp_services_set(node, &more, 1, error), -ENOSPC);
	assert_non_null(strstr(error, "all 100000 members"));
	assert_ok(oxp_test_verify(node, error));
	free(services);
	free(results);
	free(members);
	free(wanted);
}

PLAIN_TEST(test_node_holds_the_promised_services_and_members)
{
	struct oxp_node *node;

	if (available_kb() < NEEDED_KB) {
		print_message("%lu MB of memory are available, %lu are "
			      "needed: skipped\n",
			      available_kb() >> 10, NEEDED_KB >> 10);
		skip();
	}
	node = open_sized("many", (struct oxp_options){.services_max = SERVICES,
						       .members_max = SERVICES *
								      MEMBERS});
	use(node);
	remove_state(node);
}

/* As many services as can be configured, each at its own address. */
static void fill_most(struct oxp_wanted_service *wanted,
		      struct oxp_member *member)
{
	*member = (struct oxp_member){
		.address = address("10.0.0.1"), .weight = 1, .admin_up = 1};
	for (uint32_t i = 0; i < SERVICES_MOST; i++) {
		wanted[i] = (struct oxp_wanted_service){
			.key = tcp_key("198.18.0.0", 80),
			.members = member,
			.count = 1,
		};
		wanted[i].key.vip.bytes[14] = i >> 8;
		wanted[i].key.vip.bytes[15] = i;
	}
}

static void expect_most(struct oxp_node *node)
{
	struct flow flow = {CLIENT, "198.18.255.255", 40000, 80, IPPROTO_TCP};
	int program = forward_program(node);
	struct oxp_info info;
	struct frame frame;

	assert_ok(oxp_info_get(node, &info, error));
	assert_int_equal(info.services, SERVICES_MOST);
	print_message("%u services: %llu MB of maps\n", SERVICES_MOST,
		      (unsigned long long)info.map_bytes >> 20);
	make_frame(&frame, &flow, 10, NULL);
	assert_int_equal(run(program, &frame, NULL), XDP_TX);
	flow.destination = "198.19.0.0";
	make_frame(&frame, &flow, 10, NULL);
	assert_int_equal(run(program, &frame, NULL), XDP_PASS);
	close(program);
}

PLAIN_TEST(test_node_holds_the_most_services_allowed)
{
	struct oxp_wanted_service *wanted =
		calloc(SERVICES_MOST, sizeof(*wanted));
	struct oxp_member member;
	struct oxp_node *node;

	if (available_kb() < NEEDED_KB)
		skip();
	assert_non_null(wanted);
	fill_most(wanted, &member);
	node = open_sized("most",
			  (struct oxp_options){.services_max = SERVICES_MOST,
					       .members_max = SERVICES_MOST});
	if (oxp_services_set(node, wanted, SERVICES_MOST, error) !=
	    (int)SERVICES_MOST)
		fail_msg("set: %s", error);
	expect_most(node);
	wanted[0].key.port = 81;
	assert_int_equal(oxp_services_set(node, wanted, 1, error), -ENOSPC);
	assert_non_null(strstr(error, "all 65536 services"));
	remove_state(node);
	free(wanted);
}

RUN_TESTS(enter_namespace, NULL)
