// SPDX-License-Identifier: Apache-2.0
#include "attached.h"

#include <net/if.h>

uint32_t device[DEVICES];

void make_devices(void)
{
	char command[200];

	for (int i = 0; i < DEVICES; i++) {
		snprintf(command, sizeof(command),
			 "ip link add up%d type veth peer name gw%d && "
			 "ip link set up%d up && ip link set gw%d up",
			 i, i, i, i);
		assert_int_equal(system(command), 0);
		snprintf(command, sizeof(command), "up%d", i);
		device[i] = if_nametoindex(command);
		assert_true(device[i]);
	}
}

void delete_devices(void)
{
	for (int i = 0; i < DEVICES; i++) {
		char command[64];

		snprintf(command, sizeof(command),
			 "ip link del up%d 2>/dev/null || true", i);
		assert_int_equal(system(command), 0);
	}
}

struct oxp_node *attached_state(void)
{
	struct oxp_node *node = fresh_state();

	for (int i = 0; i < DEVICES; i++)
		assert_ok(oxp_interface_attach(node, device[i], error));
	return node;
}

void program_ids(struct oxp_node *node, uint32_t ids[DEVICES])
{
	struct oxp_program one[DEVICES];
	int count = oxp_programs_list(node, one, DEVICES, error);

	assert_in_range(count, 0, DEVICES);
	memset(ids, 0, DEVICES * sizeof(*ids));
	for (int i = 0; i < count; i++)
		for (int j = 0; j < DEVICES; j++)
			if (one[i].ifindex == device[j])
				ids[j] = one[i].id;
}

void assert_all_replaced(struct oxp_node *node, const uint32_t before[DEVICES])
{
	uint32_t after[DEVICES];

	program_ids(node, after);
	for (int i = 0; i < DEVICES; i++)
		assert_int_not_equal(before[i], after[i]);
}

uint32_t program_id(struct oxp_node *node)
{
	uint32_t ids[DEVICES];

	program_ids(node, ids);
	return ids[0];
}

struct forward *another_program(struct oxp_node *node)
{
	struct forward *object;

	assert_ok(load_program(node, node->config->flags ^ OXP_NODE_FIB,
			       &object, error));
	return object;
}

void attach_another(struct oxp_node *node)
{
	struct forward *object = another_program(node);

	assert_ok(replace_programs(node, object, error));
	forward__destroy(object);
}
