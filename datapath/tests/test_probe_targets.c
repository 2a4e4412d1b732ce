// SPDX-License-Identifier: Apache-2.0
/* The table of probe targets, and the filter on interfaces that sends to
 * them. */
#include <errno.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <sched.h>

#include <bpf/bpf.h>

#include "probe_fixture.h"

static void expect_probes(const struct oxp_probe *wanted, uint32_t count)
{
	struct oxp_probe found[8];

	assert_int_equal(oxp_probes_list(node, found, 8, error), count);
	assert_memory_equal(found, wanted, count * sizeof(*wanted));
}

TEST(test_targets_are_listed_as_set)
{
	struct oxp_probe wanted[4];

	for (int i = 0; i < 4; i++) {
		wanted[i] = target(VIP, i & 1 ? MEMBER_V6 : MEMBER,
				   i & 1 ? OXP_SRV6 : OXP_GRE);
		wanted[i].mark += i;
	}
	set_probes(wanted, 4);
	expect_probes(wanted, 4);
	set_probes(wanted + 1, 2);
	expect_probes(wanted + 1, 2);
	wanted[2].encapsulation = OXP_IPIP;
	set_probes(wanted, 3);
	expect_probes(wanted, 3);
	set_probes(NULL, 0);
	expect_probes(NULL, 0);
}

static void expect_refused(struct oxp_probe wanted, int status,
			   const char *part)
{
	struct oxp_probe both[2] = {target(VIP, MEMBER, OXP_IPIP), wanted};
	struct oxp_probe keeps = target(VIP, MEMBER, OXP_GUE);

	both[0].mark++;
	keeps.mark += 7;
	set_probes(&keeps, 1);
	assert_int_equal(oxp_probes_set(node, both, 2, error), status);
	if (!strstr(error, part))
		fail_msg("%s", error);
	expect_probes(&keeps, 1);
}

TEST(test_refused_targets_leave_the_others)
{
	struct oxp_probe wanted = target(VIP, MEMBER, OXP_IPIP);

	wanted.mark = 1;
	expect_refused(wanted, -EINVAL, "mark 0x1 ");
	wanted = target(VIP, MEMBER, OXP_IPIP);
	wanted.mark++;
	expect_refused(wanted, -EEXIST, "twice");
	wanted = target("0.0.0.0", MEMBER, OXP_IPIP);
	expect_refused(wanted, -EINVAL, "VIP");
	wanted = target(VIP, MEMBER, OXP_SRV6);
	expect_refused(wanted, -EAFNOSUPPORT, "SRv6");
	wanted = target(VIP, MEMBER_V6, OXP_DSCP);
	expect_refused(wanted, -EAFNOSUPPORT, "DSCP");
	wanted = target(VIP, MEMBER, 9);
	expect_refused(wanted, -EINVAL, "encapsulation 9");
}

/* Without probes nothing exists, and reading creates nothing. */
TEST(test_node_without_probes_has_nothing_of_them)
{
	uint64_t count;
	char *path;

	assert_int_equal(oxp_probes_remove(node, error), 1);
	assert_ok(oxp_probes_remove(node, error));
	assert_ok(oxp_probes_list(node, NULL, 0, error));
	assert_ok(oxp_probe_outcomes_list(node, &count, 1, error));
	assert_int_equal(oxp_probe_attach(node, 1, error), -ENOENT);
	path = pin_path(node, PROBES_FOLDER, NULL);
	assert_int_equal(access(path, F_OK), -1);
	free(path);
}

/* Attaching, in a network namespace of its own. */

static int other_program(void)
{
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = TC_ACT_UNSPEC},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int program = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "other", "GPL",
				    nothing, 2, NULL);

	assert_true(program >= 0);
	return program;
}

static uint32_t filter(void)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = 1,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, place, .handle = 0x6f7870, .priority = 1);

	return bpf_tc_query(&hook, &place) ? 0 : place.prog_id;
}

TEST(test_filter_is_attached_once_and_others_are_kept)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = 1,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, place, .handle = 0x6f7870, .priority = 1);
	LIBBPF_OPTS(bpf_tc_opts, beside, .handle = 5, .priority = 1);
	uint32_t first;

	assert_int_equal(unshare(CLONE_NEWNET), 0);
	assert_ok(detach_probes(error));
	assert_int_equal(oxp_probe_attach(node, 4711, error), -ENODEV);
	assert_ok(oxp_probe_attach(node, 1, error));
	first = filter();
	assert_int_not_equal(first, 0);
	/* unchanged, unless the targets' maps are others */
	assert_ok(oxp_probe_attach(node, 1, error));
	assert_int_equal(filter(), first);
	remove_folder(node, PROBES_FOLDER);
	set_probes(NULL, 0);
	assert_ok(oxp_probe_attach(node, 1, error));
	assert_int_not_equal(filter(), first);
	beside.prog_fd = mark_probe;
	assert_int_equal(bpf_tc_attach(&hook, &beside), 0);
	assert_int_equal(detach_probes(error), 1);
	assert_int_equal(filter(), 0);
	/* foreign filters stay; a query needs fresh options */
	beside.prog_fd = beside.prog_id = beside.flags = 0;
	assert_int_equal(bpf_tc_query(&hook, &beside), 0);

	assert_ok(oxp_probe_attach(node, 1, error));
	assert_int_equal(oxp_probes_remove(node, error), 1);
	assert_int_equal(filter(), 0);
	set_probes(NULL, 0);
	assert_ok(oxp_probe_attach(node, 1, error));
	assert_ok(oxp_test_destroy(node, error));
	assert_int_equal(filter(), 0);

	/* a program with another name at our place */
	oxp_close(node);
	node = fresh_state();
	set_probes(NULL, 0);
	place.prog_fd = other_program();
	assert_int_equal(bpf_tc_attach(&hook, &place), 0);
	first = filter();
	assert_int_equal(oxp_probe_attach(node, 1, error), -EBUSY);
	assert_int_equal(oxp_probes_remove(node, error), 1);
	assert_int_equal(filter(), first);
	close(place.prog_fd);
}

RUN_TESTS(enter_namespace, NULL)
