// SPDX-License-Identifier: Apache-2.0
/* A hypervisor's state: creating, opening, removing and setting it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_harness.h"

PLAIN_TEST(test_kernel_without_tcx_is_refused_by_name)
{
	if (has_tcx())
		skip();
	assert_int_equal(oxh_create(FOLDER, NULL, error), -EOPNOTSUPP);
	assert_non_null(strstr(error, "Linux 6.6"));
	assert_int_equal(access(FOLDER, F_OK), -1);
}

HOST_TEST(test_state_is_made_once_and_removed_once)
{
	assert_int_equal(oxh_open(FOLDER, &host, error), -ENOENT);
	assert_non_null(strstr(error, FOLDER));
	assert_int_equal(oxh_create(FOLDER, NULL, error), 1);
	assert_ok(oxh_create(FOLDER, NULL, error));
	assert_ok(oxh_open(FOLDER, &host, error));
	oxh_close(host);
	host = NULL;
	assert_ok(oxh_remove(FOLDER, error));
	assert_int_equal(access(FOLDER, F_OK), -1);
	assert_int_equal(oxh_remove(FOLDER, error), 1);
}

HOST_TEST(test_leftovers_of_a_killed_process_are_no_state)
{
	assert_int_equal(mkdir(FOLDER, 0700), 0);
	assert_int_equal(mkdir(FOLDER "/maps-new", 0700), 0);
	assert_int_equal(oxh_open(FOLDER, &host, error), -ENOENT);
	assert_int_equal(oxh_create(FOLDER, NULL, error), 1);
	assert_int_equal(access(FOLDER "/maps-new", F_OK), -1);
	assert_ok(oxh_open(FOLDER, &host, error));
}

HOST_TEST(test_other_layout_is_refused)
{
	struct oxh_host *other;

	fresh_host(NULL);
	settings_of(host)->layout++;
	assert_int_equal(oxh_open(FOLDER, &other, error), -EPROTO);
	assert_non_null(strstr(error, "layout"));
	assert_int_equal(oxh_create(FOLDER, NULL, error), -EPROTO);
}

HOST_TEST(test_sizes_are_as_asked_for)
{
	const struct oxh_sizes sizes = {
		.entries = 3, .ports = 2, .flows = 1000, .half_open = 1};

	fresh_host(&sizes);
	assert_int_equal(host->count[MAP_ENTRIES], 3);
	assert_int_equal(host->count[MAP_PORTS], 2);
	assert_int_equal(host->count[MAP_RULES], 4);
	/* twice as many, a power of two of sets */
	assert_int_equal(host->count[MAP_FLOWS], 256);
	assert_int_equal(host->count[MAP_HALF_OPEN], 2 * HOST_HALF_OPEN_PARTS);
	assert_int_equal(settings_of(host)->flow_sets, 256);
}

HOST_TEST(test_sizes_have_limits)
{
	struct oxh_sizes sizes = {.entries = HOST_NO_PLACE + 1};

	assert_int_equal(oxh_create(FOLDER, &sizes, error), -E2BIG);
	assert_non_null(strstr(error, "the limit is 65535"));
	sizes = (struct oxh_sizes){.ports = HOST_NO_PLACE + 1};
	assert_int_equal(oxh_create(FOLDER, &sizes, error), -E2BIG);
	assert_int_equal(access(FOLDER, F_OK), -1);
}

HOST_TEST(test_times_have_defaults_and_a_limit)
{
	struct oxh_settings settings = {.tcp_idle = 100000, .udp_idle = 7};

	fresh_host(NULL);
	assert_ok(oxh_settings_set(host, &settings, error));
	assert_int_equal(settings_of(host)->tcp_idle, HOST_FLOW_AGE_MAX);
	assert_int_equal(settings_of(host)->udp_idle, 7);
	assert_int_equal(settings_of(host)->closing_idle, 120);
	assert_int_equal(settings_of(host)->half_open_idle, 60);
}

HOST_TEST(test_impossible_networks_are_refused)
{
	static struct oxh_network many[OXH_NETWORKS_MAX + 1];
	struct oxh_network wrong = network("10.0.0.0", 33);

	fresh_host(NULL);
	assert_int_equal(oxh_networks_set(host, &wrong, 1, error), -EINVAL);
	assert_non_null(strstr(error, "33"));
	assert_int_equal(oxh_set_set(host, 1, &wrong, 1, error), -EINVAL);
	assert_int_equal(oxh_set_set(host, 0, NULL, 0, error), -EINVAL);
	assert_int_equal(
		oxh_networks_set(host, many, OXH_NETWORKS_MAX + 1, error),
		-E2BIG);
	assert_int_equal(settings_of(host)->nodes_count, 1);
}

HOST_TEST(test_networks_of_nodes_are_all_found)
{
	const struct segment syn = {.flags = SYN};
	const struct oxh_network around = network("10.0.0.0", 8);
	const struct oxh_network all[] = {
		network("10.6.0.0", 16), network("10.7.0.0", 16),
		network("10.2.0.0", 16), network("10.3.0.0", 16),
		network("10.4.0.0", 16), network("10.5.0.0", 16),
		network(NODE, 32)};

	fresh_listener(NULL, 0);
	assert_ok(oxh_networks_set(host, &around, 1, error));
	assert_true(send_in(KEY, &syn, NULL));
	assert_int_equal(settings_of(host)->nodes_count, 1);
	/* some are found directly, others in the map */
	assert_ok(oxh_networks_set(host, all, 7, error));
	assert_int_equal(settings_of(host)->nodes_count, HOST_NODES_MAX);
	assert_true(send_in(KEY, &syn, NULL));
	assert_ok(oxh_networks_set(host, all, 6, error));
	assert_false(send_in(KEY, &syn, NULL));
	assert_int_equal(outcome(OXH_DROP_SOURCE), 1);
	assert_ok(oxh_networks_set(host, NULL, 0, error));
	assert_int_equal(settings_of(host)->nodes_count, 0);
	assert_false(send_in(KEY, &syn, NULL));
}

/* Probes of LB nodes pass all rules, connections of proxies do not. */
HOST_TEST(test_rules_apply_to_proxies)
{
	const struct segment syn = {.flags = SYN, .client = NODE};
	const struct oxh_network nodes = network("10.0.0.0", 24);
	const struct oxh_network other = network("10.9.0.0", 24);
	const struct oxh_rule rule = {.remote = network("10.0.0.0", 24),
				      .port_min = MEMBER_PORT,
				      .port_max = MEMBER_PORT,
				      .protocol = 6,
				      .family = 4};
	struct oxh_port port = port_of(1);
	struct oxh_network out;

	port.open = 0;
	fresh_listener(NULL, 0);
	assert_ok(oxh_port_set(host, &port, NULL, 0, error));
	assert_true(send_in(KEY, &syn, NULL));
	assert_ok(oxh_networks_set(host, &other, 1, error));
	assert_false(send_in(KEY, &syn, NULL));
	assert_int_equal(outcome(OXH_DROP_SOURCE), 1);
	assert_ok(oxh_proxies_set(host, &nodes, 1, error));
	assert_int_equal(oxh_proxies_list(host, &out, 1, error), 1);
	assert_memory_equal(&out, &nodes, sizeof(out));
	/* the flow that the probe began is judged again */
	assert_ok(oxh_port_set(host, &port, &rule, 1, error));
	assert_ok(oxh_port_set(host, &port, NULL, 0, error));
	assert_false(send_in(KEY, &syn, NULL));
	assert_int_equal(outcome(OXH_DROP_NOT_ALLOWED), 1);
	assert_ok(oxh_port_set(host, &port, &rule, 1, error));
	assert_true(send_in(KEY, &syn, NULL));
	assert_ok(oxh_proxies_set(host, NULL, 0, error));
	assert_false(send_in(KEY, &syn, NULL));
	assert_int_equal(outcome(OXH_DROP_SOURCE), 2);
}

HOST_TEST(test_networks_are_listed_as_they_were_set)
{
	const struct oxh_network all[] = {
		network("10.0.0.0", 8), network("10.1.0.0", 16),
		network("2001:db8::", 32), network("0.0.0.0", 0),
		network("::", 0)};
	struct oxh_set_network sets[4];
	struct oxh_network out[5];
	bool found;

	fresh_host(NULL);
	assert_ok(oxh_networks_set(host, all, 5, error));
	assert_int_equal(oxh_networks_list(host, out, 0, error), 5);
	assert_int_equal(oxh_networks_list(host, out, 5, error), 5);
	for (int i = 0; i < 5; i++) {
		found = false;
		for (int j = 0; j < 5; j++)
			found |= !memcmp(&all[i], &out[j], sizeof(all[i]));
		assert_true(found);
	}
	assert_ok(oxh_sets_list(host, sets, 4, error));
	assert_ok(oxh_set_set(host, 7, all + 2, 1, error));
	assert_ok(oxh_set_set(host, 0xfffffffe, all, 1, error));
	assert_int_equal(oxh_sets_list(host, sets, 4, error), 2);
	for (int i = 0; i < 2; i++) {
		const struct oxh_network *wanted =
			sets[i].set == 7 ? &all[2] : &all[0];

		assert_true(sets[i].set == 7 || sets[i].set == 0xfffffffe);
		assert_memory_equal(&sets[i].network.address, &wanted->address,
				    16);
		assert_int_equal(sets[i].network.length, wanted->length);
	}
	assert_int_not_equal(sets[0].set, sets[1].set);
}

HOST_TEST(test_rules_are_listed_as_they_were_set)
{
	const struct oxh_rule rules[] = {
		{.remote = network("10.1.2.3", 24),
		 .port_min = 80,
		 .port_max = 90,
		 .protocol = 6,
		 .family = 4},
		{.remote = network("::", 0), .port_max = 65535, .family = 6},
		{.remote = network("10.1.2.3", 24),
		 .set = 9,
		 .port_max = 1,
		 .protocol = 17,
		 .family = 4}};
	struct oxh_rule out[3], expected[3];
	struct oxh_port port = port_of(1);

	fresh_host(NULL);
	assert_int_equal(oxh_rules_list(host, port.id, out, 3, error), -ENOENT);
	for (uint32_t count = 0; count <= 3; count++) {
		assert_ok(oxh_port_set(host, &port, rules, count, error));
		assert_int_equal(oxh_rules_list(host, port.id, out, 3, error),
				 count);
	}
	memcpy(expected, rules, sizeof(expected));
	expected[0].remote = network("10.1.2.0", 24);
	expected[2].remote = network("0.0.0.0", 0);
	for (int i = 0; i < 3; i++) {
		assert_memory_equal(&out[i].remote, &expected[i].remote,
				    sizeof(out[i].remote));
		assert_int_equal(out[i].set, expected[i].set);
		assert_int_equal(out[i].port_min, expected[i].port_min);
		assert_int_equal(out[i].port_max, expected[i].port_max);
		assert_int_equal(out[i].protocol, expected[i].protocol);
		assert_int_equal(out[i].family, expected[i].family);
	}
}

HOST_TEST(test_programs_and_settings_are_listed)
{
	const struct oxh_settings settings = {.reply_ifindex = LO,
					      .local_v4 = address(LOCAL),
					      .sid = address("2001:db8::"),
					      .tcp_idle = 77};
	struct oxh_settings got;
	struct oxh_program out[4];

	fresh_host(NULL);
	assert_ok(oxh_settings_set(host, &settings, error));
	assert_ok(oxh_settings_get(host, &got, error));
	assert_int_equal(got.reply_ifindex, LO);
	assert_memory_equal(&got.local_v4, &settings.local_v4, 16);
	assert_memory_equal(&got.local_v6, &settings.local_v6, 16);
	assert_memory_equal(&got.sid, &settings.sid, 16);
	assert_int_equal(got.tcp_idle, 77);
	assert_int_equal(got.udp_idle, 180);
	assert_ok(oxh_programs_list(host, out, 4, error));
	assert_int_equal(oxh_attach(host, OXH_TAP_OUT, LO, error), 1);
	/* a pin of another interface, and a file that is no pin */
	assert_int_equal(
		rename(FOLDER "/links/tap-out-1", FOLDER "/links/tap-in-99"),
		0);
	assert_int_equal(oxh_attach(host, OXH_NIC, LO, error), 1);
	assert_int_equal(oxh_programs_list(host, out, 4, error), 2);
	for (int i = 0; i < 2; i++) {
		bool nic = out[i].hook == OXH_NIC;

		assert_int_equal(out[i].ifindex, nic ? LO : 99);
		assert_int_equal(out[i].attached, nic);
		assert_int_equal(out[i].current, nic);
	}
	assert_int_not_equal(out[0].hook, out[1].hook);
	assert_ok(oxh_detach(host, OXH_NIC, LO, error));
	assert_ok(oxh_detach(host, OXH_TAP_IN, 99, error));
}

/* Without global membarrier, like a kernel with nohz_full. */
static void take_membarrier(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(*filter), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(2);
}

HOST_TEST(test_kernel_without_membarrier_is_refused)
{
	int status;
	pid_t child;

	child = fork();
	assert_true(child >= 0);
	if (!child) {
		take_membarrier();
		_exit(oxh_create(FOLDER, NULL, error) != -ENOSYS ||
		      !strstr(error, "membarrier"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(oxh_remove(FOLDER, error), 1);
}

RUN_TESTS(enter_host_namespace, NULL)
