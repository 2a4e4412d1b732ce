/* SPDX-License-Identifier: Apache-2.0 */
/* A node with the table of probe targets and the program that sends probes. */
#ifndef OXP_PROBE_FIXTURE_H
#define OXP_PROBE_FIXTURE_H

#include <linux/bpf.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "harness.h"
#include "probe.h"
#include "probe.skel.h"

#define MARK (OXP_PROBE_MARK | 0xabc)
#define MEMBER "10.1.0.1"
#define MEMBER_V6 "2001:db8:1::1"

static struct oxp_node *node;
static struct probe *object;
static int forward, mark_probe; /* programs */

static int set_up(void **state)
{
	struct probe_maps maps;

	(void)state;
	node = fresh_state();
	assert_ok(oxp_probes_set(node, NULL, 0, error));
	assert_ok(open_probe_maps(node, &maps));
	assert_ok(load_probe_program(node, &maps, &object, error));
	close_probe_maps(&maps);
	mark_probe = bpf_program__fd(object->progs.oxp_probe);
	forward = forward_program(node);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	probe__destroy(object);
	close(forward);
	oxp_close(node);
	return 0;
}

static inline struct oxp_probe target(const char *vip, const char *member,
				      uint8_t encapsulation)
{
	return (struct oxp_probe){
		.mark = MARK,
		.vip = address(vip),
		.member = address(member),
		.encapsulation = encapsulation,
		.dscp = encapsulation == OXP_DSCP ? 46 : 0,
		.sid_function = encapsulation == OXP_SRV6 ? 0x4001 : 0,
	};
}

static inline void set_probes(const struct oxp_probe *probes, uint32_t count)
{
	assert_ok(oxp_probes_set(node, probes, count, error));
}

/* Run a frame with a mark; *mark becomes the mark afterwards. */
static inline int run_marked(const struct frame *in, struct frame *out,
			     uint32_t *mark)
{
	struct __sk_buff before = {.mark = *mark}, after = {};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in->data,
		    .data_size_in = in->length, .data_out = out->data,
		    .data_size_out = FRAME_MAX, .ctx_in = &before,
		    .ctx_size_in = sizeof(before), .ctx_out = &after,
		    .ctx_size_out = sizeof(after));
	int status = bpf_prog_test_run_opts(mark_probe, &options);

	if (status)
		fail_msg("test run: %s", strerror(-status));
	out->length = options.data_size_out;
	*mark = after.mark;
	return options.retval;
}

static inline uint64_t outcome(enum oxp_probe_outcome which)
{
	uint64_t counts[OXP_PROBE_OUTCOMES];

	assert_int_equal(oxp_probe_outcomes_list(node, counts,
						 OXP_PROBE_OUTCOMES, error),
			 OXP_PROBE_OUTCOMES);
	return counts[which];
}

static inline void expect(const struct frame *in, uint32_t mark, int action,
			  enum oxp_probe_outcome which)
{
	uint64_t before = outcome(which);
	struct frame out;

	assert_int_equal(run_marked(in, &out, &mark), action);
	assert_int_equal(outcome(which), before + 1);
}

#define TEST(name) TEST_WITH(name, set_up, tear_down)

#endif
