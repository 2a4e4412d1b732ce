// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <unistd.h>

#include <linux/bpf.h>

#include "node/uplinks.h"

struct oxp_node *node;
int program;

const char *wanted_names;

void run_case(const char *name, struct traffic traffic)
{
	struct result result;

	if (!traffic.port)
		traffic.port = 80;
	if (!traffic.action)
		traffic.action = XDP_TX;
	if (wanted_names && !strstr(name, wanted_names))
		return;
	result = measure(program, &traffic);
	printf("{\"case\": \"%s\", \"min_ns\": %d, \"median_ns\": %d, "
	       "\"floor_ns\": %d, \"ratio\": %.2f, \"quiet_runs\": %d, "
	       "\"undisturbed_ns\": %.1f, \"undisturbed_floor_ns\": %.1f}\n",
	       name, result.program.least, result.program.median,
	       result.floor.median,
	       (double)result.program.median / result.floor.median,
	       result.quiet_runs, result.undisturbed, result.undisturbed_floor);
	fflush(stdout);
}

void members_like(struct oxp_member *out, const char *first)
{
	for (int i = 0; i < MEMBERS; i++) {
		out[i] = (struct oxp_member){
			.address = address(first), .weight = 1, .admin_up = 1};
		out[i].address.bytes[15] += i;
	}
}

void set(struct oxp_key key, const struct oxp_service_settings *settings,
	 const char *first, uint32_t count)
{
	struct oxp_member members[MEMBERS];

	members_like(members, first);
	if (oxp_service_set(node, &key, settings, members, count, NULL, error))
		fail_msg("set: %s", error);
}

void open_node(uint32_t slots_max, const char *pins)
{
	struct oxp_options options = {
		.pin_directory = pins,
		.lock_file = "/mnt/lock",
		.create = 1,
		.services_max = SERVICES_MAX + 16,
		.members_max = MEMBERS * SERVICES_MAX,
		.slots_max = slots_max,
	};
	struct oxp_node_settings settings = {
		.source_v4 = address(NODE),
		.source_v6 = address(NODE_V6),
		.entropy_v4 = 8,
		.entropy_v6 = 16,
		.flags = OXP_NODE_ECHO | OXP_NODE_CLAMP_MSS,
		.icmp_rate = 1000,
	};
	struct oxp_uplink uplink = {
		.ifindex = 1,
		.mtu = 1500,
		.own_mac = {2, 0, 0, 0, 0, 1},
		.next_hop_mac_v4 = {2, 0, 0, 0, 0, 2},
		.next_hop_mac_v6 = {2, 0, 0, 0, 0, 2},
	};

	if (oxp_open(&options, &node, error) ||
	    oxp_uplinks_set(node, &uplink, 1, error) ||
	    oxp_node_settings_set(node, &settings, error))
		fail_msg("open: %s", error);
	program = forward_program(node);
}

void close_node(void)
{
	close(program);
	if (oxp_test_destroy(node, error))
		fail_msg("destroy: %s", error);
	oxp_close(node);
}
