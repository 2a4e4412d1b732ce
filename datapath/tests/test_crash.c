// SPDX-License-Identifier: Apache-2.0
/*
 * Processes that are killed or race. No packets are under way, so they need not
 * be waited for: the random moments of death fall into the library's own code
 * instead of into one system call.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

/* All that must hold wherever a process was killed. */
static void expect_sound(struct oxp_node *node)
{
	bool counter_used[512] = {};
	struct oxp_info info;
	uint32_t keys, members = 0;

	/* first, so that the node is repaired */
	assert_int_equal(oxp_info_get(node, &info, error), 0);
	if (oxp_test_verify(node, error))
		fail_msg("verify: %s", error);
	assert_int_equal(lookup_check(node, &keys), 0);
	for (uint32_t i = 0; i < node->config->services_max; i++) {
		const struct service_block *block;

		if (entry_of(node, i)->state != ENTRY_USED)
			continue;
		block = live_block(node, i);
		for (uint32_t j = 0; j < block->members; j++) {
			if (!(block->member[j].flags & MEMBER_PRESENT))
				continue;
			assert_false(counter_used[block->member[j].counter]);
			counter_used[block->member[j].counter] = true;
			members++;
		}
	}
	assert_int_equal(members, info.members);
}

static const struct oxp_service_settings *random_settings(bool quic)
{
	static struct oxp_service_settings settings;
	static struct oxp_network networks[4];

	settings = (struct oxp_service_settings){
		.slots = random() & 1 ? 251 : 1009,
		.flags = quic && random() & 1 ? OXP_SERVICE_QUIC : 0,
		.encapsulation = random() % 3,
	};
	if (random() & 1) {
		settings.allowed = networks;
		settings.allowed_count = 1 + random() % 4;
	}
	for (int i = 0; i < 4; i++) {
		networks[i].address =
			address(random() & 1 ? "10.0.0.0" : "2001:db8::");
		networks[i].address.bytes[13] = random() % 4;
		networks[i].length = 24;
	}
	return &settings;
}

static struct oxp_key random_key(bool *quic)
{
	static const char *const vips[] = {VIP, "192.0.2.2", VIP_V6,
					   "2001:db8::2"};
	const char *vip = vips[random() % 4];
	uint16_t port = 1 + random() % 4;

	*quic = random() & 1;
	return *quic ? udp_key(vip, port) : tcp_key(vip, port);
}

static int set_some(struct oxp_node *node)
{
	struct oxp_service_settings settings[4];
	struct oxp_member members[30];
	struct oxp_wanted_service wanted[4];
	int status, count = 1 + random() % 4;
	bool quic;

	make_members(members, 30, random() % 2, 1 + random() % 10);
	for (int i = 0; i < 30; i++) {
		members[i].weight = random() % 4;
		members[i].backup = random() % 8 == 0;
	}
	for (int i = 0; i < count; i++) {
		wanted[i] = (struct oxp_wanted_service){
			.key = random_key(&quic),
			.settings = &settings[i],
			.members = members + random() % 10,
			.count = random() % 20,
		};
		settings[i] = *random_settings(quic);
	}
	status = oxp_services_set(node, wanted, count, error);
	/* a key that was drawn twice, and 16 services are not room for 32 */
	for (int i = 0; i < count; i++)
		if (wanted[i].status && wanted[i].status != -EINVAL &&
		    wanted[i].status != -ENOSPC)
			return wanted[i].status;
	return status > 0 ? status : 0;
}

static void random_change(struct oxp_node *node)
{
	struct oxp_health_result results[8];
	struct oxp_key key;
	int status;
	bool quic;

	switch (random() % 7) {
	case 0:
		key = random_key(&quic);
		status = oxp_services_delete(node, &key, 1, error);
		break;
	case 1:
	case 2:
		for (int i = 0; i < 8; i++)
			results[i] = (struct oxp_health_result){
				1 + random() % 40, random() & 1};
		status = oxp_health_apply(node, results, 8, error);
		break;
	case 3:
		/* as if a second had passed */
		node->config->ticked -= 60000;
		status = oxp_slots_age(node, error);
		break;
	default:
		status = set_some(node);
	}
	if (status < 0) {
		fprintf(stderr, "change: %s\n", error);
		_exit(1);
	}
}

static void change_until_killed(unsigned int seed)
{
	struct oxp_node *node = open_state();

	/* a fault of its own is not to be the test library's */
	signal(SIGSEGV, SIG_DFL);
	srandom(seed);
	for (;;)
		random_change(node);
}

static void test_state_is_sound_wherever_a_process_is_killed(void **state)
{
	struct oxp_node *node = fresh_state();
	uint64_t repaired = 0;

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
		assert_int_equal(WTERMSIG(status), SIGKILL);
		repaired += node->config->dirty;
		expect_sound(node);
		/* and is of use */
		for (int i = 0; i < 3; i++)
			random_change(node);
		expect_sound(node);
	}
	print_message("500 deaths, %llu in a creation or deletion\n",
		      (unsigned long long)repaired);
	assert_true(repaired > 0);
	oxp_close(node);
	wait_for_packets = true;
}

/* Death amid updates of 1,000 services and 10,000 members at once: each
 * service is as it was or as it was to be. */
#define MANY 1000
#define EACH 10

static struct {
	struct oxp_wanted_service checked[MANY], unchecked[MANY];
	struct oxp_member checks[MANY][EACH], none[MANY][EACH];
	struct oxp_health_result up[MANY * EACH], down[MANY * EACH];
} many;

static struct oxp_node *open_many(void)
{
	struct oxp_options options = {
		.pin_directory = "/mnt/bpf/many",
		.lock_file = "/mnt/many",
		.services_max = MANY,
		.slots_max = 251,
		.create = 1,
	};
	struct oxp_node *node;

	if (oxp_open(&options, &node, error))
		fail_msg("open: %s", error);
	return node;
}

static void make_many(void)
{
	static const struct oxp_service_settings settings = {.slots = 251};

	for (int i = 0; i < MANY; i++) {
		/* no two have a table in common: they do not switch together */
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

/* Returns how many different states services are in. */
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

/* Microseconds of all changes, one after the other. */
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

static void test_killed_update_leaves_services_as_before_or_after(void **state)
{
	struct oxp_node *node;
	int deaths = is_quick() ? 40 : 200, amid = 0, ready[2];
	long time;
	char byte;

	(void)state;
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
		if (oxp_test_verify(node, error))
			fail_msg("verify: %s", error);
		amid += count_states(node) > 1;
	}
	print_message("%d of %d deaths amid an update\n", amid, deaths);
	assert_true(amid > 0);
	for (int i = 0; i < 4; i++)
		assert_true(change_many(node, i) >= 0);
	assert_int_equal(count_states(node), 1);
	assert_int_equal(oxp_test_verify(node, error), 0);
	assert_int_equal(oxp_test_destroy(node, error), 0);
	oxp_close(node);
	close(ready[0]);
	close(ready[1]);
	wait_for_packets = true;
}

/* Death while the state is created or destroyed. */
static void test_state_opens_after_a_kill_while_opening(void **state)
{
	struct oxp_node *node;

	(void)state;
	for (int round = 0; round < 60; round++) {
		pid_t child = fork();

		while (!child) {
			node = open_state();
			if (oxp_test_destroy(node, error))
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

static void test_changes_of_two_processes_leave_a_sound_state(void **state)
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
		cmocka_unit_test(
			test_state_is_sound_wherever_a_process_is_killed),
		cmocka_unit_test(
			test_killed_update_leaves_services_as_before_or_after),
		cmocka_unit_test(test_state_opens_after_a_kill_while_opening),
		cmocka_unit_test(
			test_changes_of_two_processes_leave_a_sound_state),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
