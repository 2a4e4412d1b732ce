/* SPDX-License-Identifier: Apache-2.0 */
/* A node with the table of probe targets and the program that sends probes. */
#ifndef OXP_PROBE_FIXTURE_H
#define OXP_PROBE_FIXTURE_H

#include <unistd.h>

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

#define TEST(name) TEST_WITH(name, set_up, tear_down)

#endif
