// SPDX-License-Identifier: Apache-2.0
/* Opening a node fails with clear errors, and leaves nothing behind. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "forward.skel.h"
#include "harness.h"
#include "load/load.h"

#define PINS "/mnt/bpf/refused"

static struct oxp_options options;

static int set_up(void **state)
{
	(void)state;
	options = (struct oxp_options){
		.pin_directory = PINS,
		.lock_file = "/mnt/lock",
		.services_max = 16,
		.members_max = 64,
		.slots_max = TEST_SLOTS,
		.create = 1,
	};
	return 0;
}

static void expect_refused(int status, const char *text)
{
	struct oxp_node *node = (void *)1;

	error[0] = '\0';
	assert_int_equal(oxp_open(&options, &node, error), status);
	assert_null(node);
	if (!strstr(error, text))
		fail_msg("\"%s\" does not say \"%s\"", error, text);
	assert_int_not_equal(access(PINS "/maps", F_OK), 0);
	assert_int_not_equal(access(PINS "/maps-new", F_OK), 0);
}

/* The same options work once the cause is gone. */
static void expect_opens(void)
{
	struct oxp_node *node;

	assert_ok(oxp_open(&options, &node, error));
	assert_ok(oxp_test_verify(node, error));
	assert_ok(oxp_test_destroy(node, error));
	oxp_close(node);
}

#define TEST(name) TEST_WITH(name, set_up, NULL)

TEST(test_impossible_sizes_are_refused)
{
	options.services_max = 1 << 21;
	expect_refused(-EINVAL, "2097152 services");
	set_up(NULL);
	options.slots_max = OXP_SLOTS_LIMIT + 1;
	expect_refused(-EINVAL, "slots");
	set_up(NULL);
	options.flows_max = 1000;
	expect_refused(-EINVAL, "power of two");
	set_up(NULL);
	options.pin_directory = NULL;
	expect_refused(-EINVAL, "pin directory");
	set_up(NULL);
	expect_opens();
}

TEST(test_unusable_folders_and_files_are_named)
{
	options.pin_directory = "/mnt/refused";
	expect_refused(-EINVAL, "/mnt/refused is not on a BPF file system");
	assert_int_not_equal(access("/mnt/refused", F_OK), 0);
	options.pin_directory = "/mnt/bpf/no/such";
	expect_refused(-ENOENT, "/mnt/bpf/no/such");
	set_up(NULL);
	options.lock_file = "/mnt/no/lock";
	expect_refused(-ENOENT, "/mnt/no/lock");
	set_up(NULL);
	options.create = 0;
	expect_refused(-ENOENT, PINS);
	options.create = 1;
	expect_opens();
}

/* Run in a child process, which cannot regain what it gives up. */
static void in_child(int (*function)(void))
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(function());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int without_capabilities(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3,
						  0};
	struct __user_cap_data_struct none[2] = {};
	struct oxp_node *node;
	int status;

	if (syscall(SYS_capset, &header, none))
		return 1;
	status = oxp_open(&options, &node, error);
	if (status == -EPERM && !node && strstr(error, "CAP_BPF"))
		return 0;
	fprintf(stderr, "%d: %s\n", status, error);
	return 1;
}

TEST(test_missing_capabilities_are_named)
{
	in_child(without_capabilities);
	assert_int_not_equal(access(PINS "/maps", F_OK), 0);
	assert_int_not_equal(access(PINS "/maps-new", F_OK), 0);
	expect_opens();
}

/* Updates in a process that gets no more memory: the service does not change,
 * and the node stays sound. */
static int without_memory(void)
{
	static struct oxp_member members[2][OXP_MEMBERS_MAX];
	struct oxp_key http = tcp_key(VIP, 80);
	struct oxp_service_settings settings = {.slots = TEST_SLOTS};
	static struct oxp_wanted_service wanted[200000];
	struct oxp_service before, after;
	struct rlimit limit = {0, RLIM_INFINITY};
	struct oxp_node *node;
	int status;

	if (oxp_open(&options, &node, error))
		return 1;
	make_members(members[0], 3, 0, 0);
	if (oxp_service_set(node, &http, &settings, members[0], 3, NULL,
			    error) ||
	    oxp_service_get(node, &http, &before, error))
		return 2;
	for (int i = 0; i < 200000; i++)
		wanted[i] = (struct oxp_wanted_service){.key = http,
							.settings = &settings,
							.members = members[0],
							.count = 2};
	setrlimit(RLIMIT_AS, &limit);
	status = oxp_services_set(node, wanted, 200000, error);
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_AS, &limit);
	if (status != -ENOMEM || !strstr(error, "cannot set services")) {
		fprintf(stderr, "%d: %s\n", status, error);
		return 3;
	}
	if (oxp_test_verify(node, error) ||
	    oxp_service_get(node, &http, &after, error))
		return 4;
	if (memcmp(&before, &after, sizeof(before)))
		return 5;
	return oxp_test_destroy(node, error) ? 6 : 0;
}

TEST(test_failed_allocation_leaves_services_as_they_were)
{
	in_child(without_memory);
	expect_opens();
}

/* Maps missing from the program make maps.h fail to compile. */
TEST(test_program_has_no_map_beyond_the_list)
{
	struct forward *object = forward__open();
	const struct bpf_map *map;
	uint32_t maps = 0, i;

	assert_non_null(object);
	bpf_object__for_each_map(map, object->obj)
	{
		const char *name = bpf_map__name(map);

		for (i = 0; i < MAPS; i++)
			if (find_map(object->obj, map_names[i]) == map)
				break;
		if (i == MAPS &&
		    strchr(name, '.')) /* the program's constants */
			continue;
		if (i == MAPS)
			fail_msg("%s is not in OXP_MAPS", name);
		maps++;
	}
	assert_int_equal(maps, MAPS);
	forward__destroy(object);
}

RUN_TESTS(enter_namespace, NULL)
