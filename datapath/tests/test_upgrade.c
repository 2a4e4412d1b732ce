// SPDX-License-Identifier: Apache-2.0
/* Another program on the same layout. Other layouts: tests/functional. */
#include <net/if.h>
#include <sched.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "forward.skel.h"
#include "harness.h"

static uint32_t device;

static int enter(void **state)
{
	if (enter_namespace(state) || unshare(CLONE_NEWNET) ||
	    system("ip link add upgraded type veth peer name other && "
		   "ip link set upgraded up && ip link set other up"))
		return -1;
	device = if_nametoindex("upgraded");
	return device ? 0 : -1;
}

static uint32_t program_id(struct oxp_node *node)
{
	struct oxp_program one;

	assert_int_equal(oxp_programs(node, &one, 1, error), 1);
	return one.id;
}

/* As if another build of the library had attached it. */
static void attach_another(struct oxp_node *node)
{
	struct forward *object;

	if (load_program(node, node->config->flags ^ OXP_NODE_FIB, &object,
			 error) ||
	    replace_programs(node, bpf_program__fd(object->progs.oxp_forward),
			     error))
		fail_msg("another: %s", error);
	forward__destroy(object);
}

static void test_program_alone(void **state)
{
	const struct oxp_options options = {
		.pin_directory = "/mnt/bpf/node",
		.lock_file = "/mnt/lock",
	};
	struct oxp_node *node = fresh_state();
	struct oxp_upgrade done;
	uint32_t own, other;

	(void)state;
	assert_int_equal(oxp_attach(node, device, error), 0);
	own = program_id(node);
	assert_int_equal(oxp_upgrade(&options, NULL, 0, &done, error), 0);
	assert_false(done.changes);
	assert_int_equal(program_id(node), own);

	attach_another(node);
	other = program_id(node);
	assert_int_not_equal(own, other);
	assert_int_equal(oxp_upgrade(&options, NULL, 1, &done, error), 0);
	assert_true(done.changes);
	assert_int_equal(done.interfaces, 1);
	assert_int_equal(done.interface[0], device);
	assert_int_equal(program_id(node), other);
	assert_int_equal(oxp_upgrade(&options, NULL, 0, &done, error), 0);
	assert_true(done.changes);
	assert_int_not_equal(program_id(node), other);
	assert_int_equal(oxp_upgrade(&options, NULL, 0, &done, error), 0);
	assert_false(done.changes);
	/* nobody who has the state open is disturbed */
	assert_int_equal(oxp_verify(node, error), 0);
	assert_int_equal(oxp_destroy(node, error), 0);
	oxp_close(node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program_alone),
	};

	return cmocka_run_group_tests(tests, enter, NULL);
}
