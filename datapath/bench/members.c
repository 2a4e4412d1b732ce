// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of a packet at a member, with and without an alternative, each case
 * a line of JSON on standard output.
 *
 * Each packet is a run of its own, as these programs change the frame in ways
 * that another program could not undo for free: caches are as warm as a system
 * call leaves them. A program that does nothing runs in turn with it, and its
 * cost is subtracted. The kernel's further work is not included: routing and
 * sending of packets that are handed on.
 */
#include <linux/bpf.h>
#include <netinet/in.h>

#include <bpf/bpf.h>

#include "member_connections.h"
#include "member_floor.skel.h"
#include "member_harness.h"

#define RUNS 5001
#define UNSPEC ((uint32_t)-1)
#define REDIRECT 7 /* TC_ACT_REDIRECT */

struct cost {
	int least, median; /* ns */
};

static const struct {
	const char *name;
	enum kind kind;
	bool v6; /* outer header */
} encapsulations[] = {
	{"GUE over IPv4", GUE, false},
	{"GUE over IPv6", GUE, true},
	{"Geneve over IPv4", GENEVE, false},
	{"Geneve over IPv6", GENEVE, true},
	{"SRv6", IPIP, true},
};

/* Packets of a connection in the order of a second chance. */
static const struct bench_case {
	const char *name;
	uint16_t client_port;
	bool named;       /* names an alternative */
	bool from_member; /* was handed on by it */
	bool goes_on;
} cases[] = {
	{"its own, no alternative", HERE, .named = false},
	{"its own, names an alternative", HERE, .named = true},
	{"another's, handed on", OTHER, .named = true, .goes_on = true},
	{"its own, was handed on", HERE, .from_member = true},
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct bench member;
static struct member_floor *nothing;

static int run(const struct bpf_program *program, const struct frame *in,
	       struct frame *out, uint32_t result)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in->data,
		    .data_size_in = in->length);

	if (out) {
		options.data_out = out->data;
		options.data_size_out = FRAME_MAX;
	}
	assert_int_equal(
		bpf_prog_test_run_opts(bpf_program__fd(program), &options), 0);
	assert_int_equal(options.retval, result);
	if (out)
		out->length = options.data_size_out;
	return options.duration;
}

static int by_value(const void *left, const void *right)
{
	return *(const int *)left - *(const int *)right;
}

static struct cost measure(const struct bpf_program *program,
			   const struct bpf_program *floor,
			   const struct frame *frame, uint32_t result,
			   uint32_t floor_result)
{
	static int cost[2][RUNS];

	for (int i = 0; i < RUNS; i++) {
		cost[0][i] = run(floor, frame, NULL, floor_result);
		cost[1][i] = run(program, frame, NULL, result);
	}
	for (int i = 0; i < 2; i++)
		qsort(cost[i], RUNS, sizeof(cost[i][0]), by_value);
	return (struct cost){cost[1][0] - cost[0][0],
			     cost[1][RUNS / 2] - cost[0][RUNS / 2]};
}

static struct cost measure_xdp(const struct frame *frame)
{
	return measure(member.object->progs.oxp_member_xdp,
		       nothing->progs.oxp_nothing_xdp, frame, XDP_PASS,
		       XDP_PASS);
}

static struct cost measure_tc(const struct frame *frame, bool goes_on)
{
	return measure(member.object->progs.oxp_member_in,
		       nothing->progs.oxp_nothing_tc, frame,
		       goes_on ? REDIRECT : UNSPEC, UNSPEC);
}

static void make_frame(struct frame *frame, size_t n,
		       const struct bench_case *one)
{
	bool v6 = encapsulations[n].v6;
	struct packet packet = {.from = CLIENT,
				.to = VIP,
				.protocol = IPPROTO_TCP,
				.from_port = one->client_port,
				.to_port = 80,
				.length = 100,
				.acknowledged = acknowledged_by_client(false)};
	struct outer outer = {.from = v6 ? NODE6 : NODE,
			      .to = v6 ? OWN6 : OWN,
			      .kind = encapsulations[n].kind};

	if (one->named)
		outer.alternative = v6 ? MEMBER6 : MEMBER;
	if (one->from_member)
		outer.from = v6 ? MEMBER6 : MEMBER;
	make_tunnel(frame, &packet, &outer);
}

static void measure_case(size_t n, const struct bench_case *one)
{
	struct cost xdp, after, alone;
	struct frame in, out;

	make_frame(&in, n, one);
	run(member.object->progs.oxp_member_xdp, &in, &out, XDP_PASS);
	xdp = measure_xdp(&in);
	after = measure_tc(&out, one->goes_on);
	alone = measure_tc(&in, one->goes_on);
	printf("{\"encapsulation\": \"%s\", \"case\": \"%s\", "
	       "\"xdp\": {\"min_ns\": %d, \"median_ns\": %d}, "
	       "\"tc_after_xdp\": {\"min_ns\": %d, \"median_ns\": %d}, "
	       "\"tc\": {\"min_ns\": %d, \"median_ns\": %d}}\n",
	       encapsulations[n].name, one->name, xdp.least, xdp.median,
	       after.least, after.median, alone.least, alone.median);
}

static void measure_all(void **state)
{
	const struct member_config config = {.hands_on = 1};

	(void)state;
	set_up(&member, XDP, &config);
	nothing = member_floor__open_and_load();
	assert_non_null(nothing);
	for (size_t n = 0; n < LENGTH(encapsulations); n++)
		for (size_t i = 0; i < LENGTH(cases); i++)
			measure_case(n, &cases[i]);
	member_floor__destroy(nothing);
	tear_down(&member);
}

int main(void)
{
	const struct CMUnitTest own_tests[] = {cmocka_unit_test(measure_all)};

	return cmocka_run_group_tests(own_tests, open_connections,
				      close_connections);
}
