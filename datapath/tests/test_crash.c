// SPDX-License-Identifier: Apache-2.0
/*
 * Processes that are killed or race. There are no packets to wait for, so the
 * random moments of death fall into the library's own code instead of one
 * system call.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* Invariants that hold wherever a process was killed. */
static void expect_sound(struct oxp_node *node)
{
	bool counter_used[512] = {};
	struct oxp_info info;
	uint32_t keys, members = 0;

	/* first, as this repairs the node */
	assert_ok(oxp_info_get(node, &info, error));
	assert_ok(oxp_test_verify(node, error));
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
	/* the same key drawn twice; and 16 services have no room for 32 */
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
		/* make a tick due */
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

	/* a crash must not be caught by the test library */
	signal(SIGSEGV, SIG_DFL);
	srandom(seed);
	for (;;)
		random_change(node);
}

PLAIN_TEST(test_state_is_sound_wherever_a_process_is_killed)
{
	struct oxp_node *node = fresh_state();
	const int deaths = is_quick() ? 100 : 500;
	uint64_t repaired = 0;
	int round;

	wait_for_packets = false;
	/* one in twenty leaves something to repair */
	for (round = 0; round < deaths || (!repaired && round < 500); round++) {
		pid_t child = fork();
		int status;

		if (!child)
			change_until_killed(round);
		usleep(200 + random() % 3000);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		/* otherwise it exited with an error */
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		repaired += node->config->dirty;
		expect_sound(node);
		/* and still usable */
		for (int i = 0; i < 3; i++)
			random_change(node);
		expect_sound(node);
	}
	print_message("%d deaths, %llu in a creation or deletion\n", round,
		      (unsigned long long)repaired);
	assert_true(repaired > 0);
	oxp_close(node);
	wait_for_packets = true;
}

/* Kills while the state is created or destroyed. */
PLAIN_TEST(test_state_opens_after_a_kill_while_opening)
{
	struct oxp_node *node;

	for (int round = 0; round < (is_quick() ? 20 : 60); round++) {
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

PLAIN_TEST(test_changes_of_two_processes_leave_a_sound_state)
{
	struct oxp_node *node = fresh_state();
	pid_t children[2];

	wait_for_packets = false;
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		if (!children[i]) {
			struct oxp_node *own = open_state();

			srandom(100 + i);
			for (int n = 0; n < (is_quick() ? 1000 : 5000); n++)
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

RUN_TESTS(enter_namespace, NULL)
