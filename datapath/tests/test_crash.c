// SPDX-License-Identifier: Apache-2.0
/*
 * Processes that die or race. No packets are under way, so they need not be
 * waited for: the random moments of death fall into the library's own code
 * instead of into one system call.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "harness.h"

/* Counts the elements of a hash. */
static uint32_t elements(int map)
{
	uint32_t count = 0;
	char key[8], *last = NULL;

	for (; !bpf_map_get_next_key(map, last, key); last = key)
		count++;
	return count;
}

static void expect_sound(struct oxp_node *node)
{
	bool counter_used[512] = {};
	uint32_t vips = 0, addresses[16];
	struct oxp_info info;

	/* first, so that the node is mended */
	assert_int_equal(oxp_info(node, &info, error), 0);
	if (oxp_verify(node, error))
		fail_msg("verify: %s", error);
	assert_int_equal(elements(node->map[MAP_SERVICES_V4]), info.services);
	for (uint32_t i = 0; i < node->config->services_max; i++) {
		const struct service_block *block = live_block(node, i);
		uint32_t vip, j;

		if (entry_of(node, i)->state != ENTRY_USED)
			continue;
		memcpy(&vip, entry_of(node, i)->vip + 12, sizeof(vip));
		for (j = 0; j < vips && addresses[j] != vip; j++)
			;
		if (j == vips)
			addresses[vips++] = vip;
		for (j = 0; j < block->members; j++) {
			assert_false(counter_used[block->member[j].counter]);
			counter_used[block->member[j].counter] = true;
		}
	}
	assert_int_equal(elements(node->map[MAP_VIPS_V4]), vips);
}

static void random_change(struct oxp_node *node)
{
	struct oxp_key key =
		tcp_key(random() & 1 ? VIP : "192.0.2.2", 1 + random() % 5);
	struct oxp_member members[30];
	struct oxp_result results[8];
	int status;

	switch (random() % 6) {
	case 0:
		status = oxp_service_delete(node, &key, 1, error);
		break;
	case 1:
	case 2:
		for (int i = 0; i < 8; i++)
			results[i] = (struct oxp_result){1 + random() % 40,
							 random() & 1};
		status = oxp_health_apply(node, results, 8, error);
		break;
	default:
		make_members(members, 30, random() % 2, 1 + random() % 10);
		status = oxp_service_set(node, &key, random() & 1 ? 251 : 1009,
					 members + random() % 10, random() % 20,
					 NULL, error);
	}
	if (status < 0) {
		fprintf(stderr, "change: %s\n", error);
		_exit(1);
	}
}

static void change_until_killed(unsigned int seed)
{
	struct oxp_node *node = open_state();

	srandom(seed);
	for (;;)
		random_change(node);
}

static void test_kill_anywhere(void **state)
{
	struct oxp_node *node = fresh_state();
	uint64_t mended = 0;

	(void)state;
	wait_for_packets = false;
	for (int round = 0; round < 500; round++) {
		pid_t child = fork();
		int status;

		if (!child)
			change_until_killed(round);
		usleep(200 + random() % 3000);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		/* else it ended by itself, with an error */
		assert_true(WIFSIGNALED(status));
		mended += node->config->dirty;
		expect_sound(node);
		/* and is of use */
		for (int i = 0; i < 3; i++)
			random_change(node);
		expect_sound(node);
	}
	print_message("500 deaths, %llu in a creation or deletion\n",
		      (unsigned long long)mended);
	assert_true(mended > 0);
	oxp_close(node);
	wait_for_packets = true;
}

/* Death while the state is created or destroyed. */
static void test_kill_while_opening(void **state)
{
	struct oxp_node *node;

	(void)state;
	for (int round = 0; round < 60; round++) {
		pid_t child = fork();

		while (!child) {
			node = open_state();
			if (oxp_destroy(node, error))
				_exit(1);
			oxp_close(node);
		}
		usleep(1000 + random() % 20000);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);
		node = open_state();
		random_change(node);
		expect_sound(node);
		oxp_close(node);
	}
}

static void test_two_processes(void **state)
{
	struct oxp_node *node = fresh_state();
	pid_t children[2];

	(void)state;
	wait_for_packets = false;
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		if (!children[i]) {
			struct oxp_node *own = open_state();

			srandom(100 + i);
			for (int n = 0; n < 5000; n++)
				random_change(own);
			_exit(0);
		}
	}
	for (int i = 0; i < 2; i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	expect_sound(node);
	oxp_close(node);
	wait_for_packets = true;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kill_anywhere),
		cmocka_unit_test(test_kill_while_opening),
		cmocka_unit_test(test_two_processes),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
