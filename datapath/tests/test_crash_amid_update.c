// SPDX-License-Identifier: Apache-2.0
/* Kills during updates of 1,000 services and 10,000 members at once: each
 * service must be in its old or new state. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define MANY 1000
#define EACH 10

static struct {
	struct oxp_wanted_service checked[MANY], unchecked[MANY];
	struct oxp_member checks[MANY][EACH], none[MANY][EACH];
	struct oxp_health_result up[MANY * EACH], down[MANY * EACH];
} many;

static struct oxp_node *open_many(void)
{
	return open_sized("many", (struct oxp_options){.services_max = MANY,
						       .slots_max = 251});
}

static void make_many(void)
{
	static const struct oxp_service_settings settings = {.slots = 251};

	for (int i = 0; i < MANY; i++) {
		/* no two share a table, so they do not switch together */
		make_members(many.checks[i], EACH, i, 1 + i * EACH);
		for (int j = 0; j < EACH; j++)
			many.checks[i][j].address.bytes[13] = 2 + i / 256;
		memcpy(many.none[i], many.checks[i], sizeof(many.none[i]));
		for (int j = 0; j < EACH; j++) {
			many.none[i][j].check = 0;
			many.none[i][j].address.bytes[13] += 8;
		}
		many.checked[i] = (struct oxp_wanted_service){
			.key = tcp_key(VIP, 1 + i),
			.settings = &settings,
			.members = many.checks[i],
			.count = EACH,
		};
		many.unchecked[i] = many.checked[i];
		many.unchecked[i].members = many.none[i];
		many.unchecked[i].count = EACH / 2;
	}
	for (int i = 0; i < MANY * EACH; i++) {
		many.up[i] = (struct oxp_health_result){1 + i, 1};
		many.down[i] = (struct oxp_health_result){1 + i, 0};
	}
}

static int change_many(struct oxp_node *node, int which)
{
	switch (which % 4) {
	case 0:
		return oxp_services_set(node, many.checked, MANY, error);
	case 1:
		return oxp_health_apply(node, many.up, MANY * EACH, error);
	case 2:
		return oxp_health_apply(node, many.down, MANY * EACH, error);
	default:
		return oxp_services_set(node, many.unchecked, MANY, error);
	}
}

/* Returns how many different states there are. */
static int count_states(struct oxp_node *node)
{
	static struct oxp_service services[MANY];
	bool seen[3] = {};

	assert_int_equal(oxp_services_list(node, services, MANY, error), MANY);
	for (int i = 0; i < MANY; i++) {
		uint32_t members = services[i].members;
		uint32_t enabled = services[i].enabled;

		if (members == EACH / 2) {
			assert_int_equal(enabled, members);
			seen[0] = true;
		} else {
			assert_int_equal(members, EACH);
			assert_true(enabled == 0 || enabled == EACH);
			seen[enabled ? 1 : 2] = true;
		}
	}
	return seen[0] + seen[1] + seen[2];
}

/* Returns the duration of all changes in sequence, in microseconds. */
static long time_of_changes(struct oxp_node *node)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < 4; i++)
		assert_true(change_many(node, i) >= 0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from.tv_sec) * 1000000 +
	       (to.tv_nsec - from.tv_nsec) / 1000 + 1;
}

PLAIN_TEST(test_killed_update_leaves_services_as_before_or_after)
{
	struct oxp_node *node;
	int deaths = is_quick() ? 40 : 200, amid = 0, ready[2];
	long time;
	char byte;

	assert_int_equal(pipe(ready), 0);
	make_many();
	wait_for_packets = false;
	node = open_many();
	assert_int_equal(change_many(node, 0), MANY);
	time = time_of_changes(node);
	for (int round = 0; round < deaths; round++) {
		pid_t child = fork();
		int status;

		if (!child) {
			signal(SIGSEGV, SIG_DFL);
			node = open_many();
			if (write(ready[1], "", 1) != 1)
				_exit(1);
			for (int i = round; change_many(node, i) >= 0; i++)
				;
			_exit(1);
		}
		assert_int_equal(read(ready[0], &byte, 1), 1);
		usleep(random() % time);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		assert_ok(oxp_test_verify(node, error));
		amid += count_states(node) > 1;
	}
	print_message("%d of %d deaths amid an update\n", amid, deaths);
	assert_true(amid > 0);
	for (int i = 0; i < 4; i++)
		assert_true(change_many(node, i) >= 0);
	assert_int_equal(count_states(node), 1);
	remove_state(node);
	close(ready[0]);
	close(ready[1]);
	wait_for_packets = true;
}

RUN_TESTS(enter_namespace, NULL)
