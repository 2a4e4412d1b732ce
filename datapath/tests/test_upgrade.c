// SPDX-License-Identifier: Apache-2.0
/* Another program on the same layout, with several interfaces. Other layouts:
 * tests/functional. */
#include <errno.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attached.h"

/* How many programs of links can be replaced before the kernel refuses, and how
 * often it then refuses. */
static int successes, refusals;
static char vanishing[64]; /* to run before the next one */

int __real_bpf_link_update(int link, int program,
			   const struct bpf_link_update_opts *options);
int __wrap_bpf_link_update(int link, int program,
			   const struct bpf_link_update_opts *options);
int __wrap_bpf_link_update(int link, int program,
			   const struct bpf_link_update_opts *options)
{
	if (vanishing[0]) {
		assert_int_equal(system(vanishing), 0);
		vanishing[0] = '\0';
	}
	if (refusals && !successes--) {
		successes = 0;
		refusals--;
		return -EBUSY;
	}
	return __real_bpf_link_update(link, program, options);
}

static int enter(void **state)
{
	return enter_namespace(state) || unshare(CLONE_NEWNET) ? -1 : 0;
}

static int set_up(void **state)
{
	(void)state;
	make_devices();
	successes = refusals = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	delete_devices();
	return 0;
}

static const struct oxp_options options = {
	.pin_directory = "/mnt/bpf/node",
	.lock_file = "/mnt/lock-node",
};

static void end(struct oxp_node *node)
{
	assert_ok(oxp_test_verify(node, error));
	assert_ok(oxp_test_destroy(node, error));
	oxp_close(node);
}

#define TEST(name) TEST_WITH(name, set_up, tear_down)

TEST(test_program_of_the_same_layout_is_replaced_once)
{
	struct oxp_node *node = attached_state();
	struct oxp_upgrade done;
	uint32_t own, other;

	own = program_id(node);
	assert_ok(oxp_upgrade(&options, NULL, 0, &done, error));
	assert_false(done.changes);
	assert_int_equal(program_id(node), own);

	attach_another(node);
	other = program_id(node);
	assert_int_not_equal(own, other);
	assert_ok(oxp_upgrade(&options, NULL, 1, &done, error));
	assert_true(done.changes);
	assert_int_equal(done.interfaces, DEVICES);
	assert_int_equal(program_id(node), other);
	assert_ok(oxp_upgrade(&options, NULL, 0, &done, error));
	assert_true(done.changes);
	assert_int_not_equal(program_id(node), other);
	assert_ok(oxp_upgrade(&options, NULL, 0, &done, error));
	assert_false(done.changes);
	/* others that have the state open are not disturbed */
	end(node);
}

/* Each interface is reported separately. */
TEST(test_only_interfaces_with_another_program_change)
{
	struct oxp_node *node = attached_state();
	uint32_t before[DEVICES], after[DEVICES];
	struct forward *object = another_program(node);
	struct oxp_upgrade done;
	char *path = link_path(node, device[1]);
	int link = open_link(path, device[1]);

	assert_true(link >= 0);
	assert_ok(replace_program(link,
				  bpf_program__fd(object->progs.oxp_forward),
				  device[1], error));
	close(link);
	free(path);
	forward__destroy(object);
	program_ids(node, before);
	for (int dry_run = 1; dry_run >= 0; dry_run--) {
		assert_ok(oxp_upgrade(&options, NULL, dry_run, &done, error));
		assert_true(done.changes);
		assert_int_equal(done.interfaces, DEVICES);
		for (int i = 0; i < DEVICES; i++)
			assert_int_equal(done.interface[i].changes,
					 done.interface[i].ifindex ==
						 device[1]);
	}
	program_ids(node, after);
	for (int i = 0; i < DEVICES; i++)
		assert_int_equal(after[i] != before[i], i == 1);
	end(node);
}

/* Each interface has its own program object, held only by its link. */
TEST(test_refusal_half_way_restores_all_interfaces)
{
	struct oxp_node *node = attached_state();
	struct forward *object = another_program(node);
	uint32_t before[DEVICES], after[DEVICES];

	program_ids(node, before);
	assert_int_not_equal(before[0], before[1]);
	for (int at = 0; at < DEVICES; at++) {
		successes = at;
		refusals = 1;
		assert_int_equal(replace_programs(node, object, error), -EBUSY);
		assert_non_null(strstr(error, "of interface "));
		assert_null(strstr(error, ";"));
		assert_int_equal(refusals, 0);
		program_ids(node, after);
		assert_memory_equal(before, after, sizeof(before));
	}
	assert_ok(replace_programs(node, object, error));
	assert_all_replaced(node, before);
	forward__destroy(object);
	end(node);
}

/* If restoring is refused as well, that is reported, and the next upgrade
 * handles the rest. */
TEST(test_refused_restoration_is_reported)
{
	struct oxp_node *node = attached_state();
	uint32_t before[DEVICES], after[DEVICES];
	struct oxp_upgrade done;
	int changed = 0;

	attach_another(node);
	program_ids(node, before);
	successes = 1;
	refusals = 2;
	assert_int_equal(oxp_upgrade(&options, NULL, 0, &done, error), -EBUSY);
	assert_non_null(strstr(error, "; going back: "));
	program_ids(node, after);
	for (int i = 0; i < DEVICES; i++)
		changed += before[i] != after[i];
	assert_int_equal(changed, 1);
	assert_ok(oxp_upgrade(&options, NULL, 1, &done, error));
	for (int i = 0; i < DEVICES; i++)
		changed += done.interface[i].changes;
	assert_int_equal(changed, DEVICES);
	assert_ok(oxp_upgrade(&options, NULL, 0, &done, error));
	assert_ok(oxp_upgrade(&options, NULL, 0, &done, error));
	assert_false(done.changes);
	end(node);
}

static void set_sys_admin(bool on)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &head, data), 0);
	if (on)
		data[0].effective |= 1 << CAP_SYS_ADMIN;
	else
		data[0].effective &= ~(1 << CAP_SYS_ADMIN);
	assert_int_equal(syscall(SYS_capset, &head, data), 0);
}

/* The kernel does not show other processes the program of a link: without the
 * capability replacing works but restoring does not, which is reported. */
TEST(test_missing_capability_to_restore_is_reported)
{
	struct oxp_node *node = attached_state();
	uint32_t before[DEVICES];
	struct forward *object = another_program(node);
	int status;

	program_ids(node, before);
	successes = refusals = 1;
	set_sys_admin(false);
	status = replace_programs(node, object, error);
	set_sys_admin(true);
	assert_int_equal(status, -EBUSY);
	assert_non_null(strstr(error, "keeps the new one"));
	assert_non_null(strstr(error, "CAP_SYS_ADMIN"));

	set_sys_admin(false);
	status = replace_programs(node, object, error);
	set_sys_admin(true);
	assert_int_equal(status, 0);
	assert_all_replaced(node, before);
	forward__destroy(object);
	end(node);
}

/* Between listing the interfaces and switching. */
TEST(test_vanished_interfaces_do_not_stop_an_upgrade)
{
	struct oxp_node *node = attached_state();
	uint32_t before[DEVICES], after[DEVICES];
	struct oxp_upgrade done;

	attach_another(node);
	program_ids(node, before);
	strcpy(vanishing, "ip link del up0 && ip link del up2");
	assert_ok(oxp_upgrade(&options, NULL, 0, &done, error));
	assert_int_equal(vanishing[0], 0);
	assert_int_equal(done.interfaces, DEVICES);
	program_ids(node, after);
	assert_int_equal(after[0], 0);
	assert_int_equal(after[2], 0);
	assert_int_not_equal(after[1], 0);
	assert_int_not_equal(after[1], before[1]);
	assert_ok(oxp_upgrade(&options, NULL, 1, &done, error));
	assert_false(done.changes);
	assert_int_equal(done.interfaces, 1);
	assert_int_equal(done.interface[0].ifindex, device[1]);
	end(node);
}

/* A link that cannot be opened is not skipped: all or none, however few
 * descriptors there are. */
TEST(test_all_links_change_or_none_with_few_descriptors)
{
	struct oxp_node *node = attached_state();
	struct forward *object = another_program(node);
	uint32_t before[DEVICES], after[DEVICES];
	struct rlimit all, few;
	int next = dup(0), failures = 0, status;

	assert_true(next >= 0);
	close(next);
	program_ids(node, before);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = all;
	for (few.rlim_cur = next;; few.rlim_cur++) {
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		status = replace_programs(node, object, error);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
		if (!status)
			break;
		failures++;
		assert_int_equal(status, -EMFILE);
		program_ids(node, after);
		assert_memory_equal(before, after, sizeof(before));
		/* no descriptor leaks */
		assert_int_equal(dup(0), next);
		close(next);
	}
	assert_true(failures > 2 * DEVICES);
	assert_all_replaced(node, before);
	forward__destroy(object);
	end(node);
}

RUN_TESTS(enter, NULL)
