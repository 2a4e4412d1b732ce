// SPDX-License-Identifier: Apache-2.0
/*
 * A process killed while it ends a NAT flow: after each of its changes,
 * single-stepped. The next tick ends the flow, exactly once.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nat_fixture.h"

/* Shared state that the end of a flow changes. */
struct seen {
	uint32_t state;
	uint32_t flows;
	uint32_t flows_v6;
	uint32_t active;
	uint32_t ending;
};

static struct seen read_seen(const struct nat_flow *flow)
{
	const struct nat_group *group = &nat_groups(node)[OURS];

	return (struct seen){
		flow->state,       group->flows,
		group->flows_v6,   node->nat_services[flow->service].active,
		node->nat->ending,
	};
}

static void end_in_child(struct nat_flow *flow)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSTOP);
	end_nat_flow(node, flow - pool_table(), flow, flow->state);
	_exit(0);
}

/* Returns whether it was killed before it was done. */
static bool kill_after(pid_t child, const struct nat_flow *flow,
		       uint32_t changes)
{
	struct seen before = read_seen(flow);
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	while (WIFSTOPPED(status)) {
		struct seen now = read_seen(flow);

		if (memcmp(&now, &before, sizeof(now)) && !--changes)
			kill(child, SIGKILL);
		else
			ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
		before = now;
		assert_int_equal(waitpid(child, &status, 0), child);
	}
	return WIFSIGNALED(status);
}

/* A flow that stays and one to end, both counted as IPv6 as well. */
static struct nat_flow *make_flows(void)
{
	struct nat_flow *flow = establish(0, &ours),
			*other = find_flow(1, &ours);

	if (!other)
		other = establish(1, &ours);
	flow->in_v6 = other->in_v6 = 1;
	nat_groups(node)[OURS].flows_v6 = 2;
	return flow;
}

static void expect_ended(const struct nat_flow *flow)
{
	const struct seen now = read_seen(flow);

	assert_int_equal(now.state, NAT_FREE);
	assert_int_equal(now.flows, 1);
	assert_int_equal(now.flows_v6, 1);
	assert_int_equal(now.active, 1);
	assert_int_equal(now.ending, 0);
	assert_null(find_flow(0, &ours));
	expect_alive(1, &ours);
}

NAT_TEST(test_flow_ends_once_wherever_the_process_is_killed)
{
	uint32_t deaths = 0;
	bool killed = true;

	while (killed) {
		struct nat_flow *flow = make_flows();
		pid_t child = fork();

		if (!child)
			end_in_child(flow);
		killed = kill_after(child, flow, deaths + 1);
		deaths += killed;
		if (killed)
			age();
		/* the first death is before the claim */
		if (nat_state_of(flow->state) == NAT_ESTABLISHED)
			assert_true(end_nat_flow(node, flow - pool_table(),
						 flow, flow->state));
		expect_ended(flow);
	}
	print_message("%u deaths\n", deaths);
	/* the claim, three counts, and the free port */
	assert_true(deaths >= 5);
}

RUN_TESTS(enter_namespace, NULL)
