// SPDX-License-Identifier: Apache-2.0
/* Probes by mark: what the program makes of them is what the forwarding
 * program makes of a client's packet, and nothing else leaves. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "harness.h"
#include "probe.h"
#include "probe.skel.h"

#define MARK (OXP_PROBE_MARK | 0xabc)
#define MEMBER "10.1.0.1"
#define MEMBER_V6 "2001:db8:1::1"
#define CLIENT_V6 "2001:db8:c::7"

static struct oxp_node *node;
static struct probe *object;
static int forward, mark_probe;

static int set_up(void **state)
{
	struct probe_maps maps;

	(void)state;
	node = fresh_state();
	if (oxp_probes_set(node, NULL, 0, error) ||
	    open_probe_maps(node, &maps) ||
	    load_probe_program(node, &maps, &object, error))
		fail_msg("set up: %s", error);
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

static struct oxp_probe target(const char *vip, const char *member,
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

static void set_probes(const struct oxp_probe *probes, uint32_t count)
{
	if (oxp_probes_set(node, probes, count, error))
		fail_msg("set probes: %s", error);
}

/* Runs a frame that has the mark; the mark afterwards in *mark. */
static int run_marked(const struct frame *in, struct frame *out, uint32_t *mark)
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

static uint64_t outcome(enum oxp_probe_outcome which)
{
	uint64_t counts[OXP_PROBE_OUTCOMES];

	assert_int_equal(oxp_probe_outcomes_list(node, counts,
						 OXP_PROBE_OUTCOMES, error),
			 OXP_PROBE_OUTCOMES);
	return counts[which];
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

/* An IPv6 packet in place of the frame's IPv4 packet. */
static void to_v6(struct frame *frame, const char *source, const char *vip)
{
	uint8_t *ip = frame->data + 14, protocol = ip[9];
	size_t payload = frame->length - 14 - 20;

	memmove(ip + 40, ip + 20, payload);
	memset(ip, 0, 40);
	put16(frame->data + 12, 0x86dd);
	put16(ip, 0x6000 | 0x0b8); /* traffic class */
	put16(ip + 4, payload);
	ip[6] = protocol;
	ip[7] = 57;
	inet_pton(AF_INET6, source, ip + 8);
	inet_pton(AF_INET6, vip, ip + 24);
	frame->length += 20;
}

/* The checksum as a receiver would compute it over the packet at `ip`; 0 if
 * that in the packet is right. */
static uint16_t wrong_by(const uint8_t *ip)
{
	bool v6 = ip[0] >> 4 == 6;
	size_t length = v6 ? ip[4] << 8 | ip[5] : (ip[2] << 8 | ip[3]) - 20;
	uint8_t pseudo[40 + FRAME_MAX] = {};

	memcpy(pseudo, ip + (v6 ? 8 : 12), v6 ? 32 : 8);
	put16(pseudo + 36, length);
	pseudo[39] = ip[v6 ? 6 : 9];
	memcpy(pseudo + 40, ip + (v6 ? 40 : 20), length);
	return checksum(pseudo, 40 + length + (length & 1));
}

static void fix_l4(uint8_t *ip, uint8_t protocol)
{
	bool v6 = ip[0] >> 4 == 6;
	uint8_t *check = ip + (v6 ? 40 : 20) +
			 (protocol == IPPROTO_TCP   ? 16
			  : protocol == IPPROTO_UDP ? 6
						    : 2);

	put16(check, 0);
	put16(check, wrong_by(ip));
}

static void make_probe(struct frame *out, bool v6, uint8_t protocol, int n)
{
	struct variation with = {.tos = 0xb8, .id = n, .fragment = 0x4000};
	const struct flow flow = {CLIENT, VIP, 40000 + n, 80, protocol};

	make_frame(out, &flow, n + 4, &with); /* SCTP has 12 bytes */
	if (v6)
		to_v6(out, CLIENT_V6, VIP_V6);
	if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)
		fix_l4(out->data + 14, protocol);
}

static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};

/* Every encapsulation in both families, against the forwarding program. */
static void same_as_forwarded(uint8_t encapsulation, bool v6, bool outer_v6,
			      uint8_t protocol)
{
	const char *vip = v6 ? VIP_V6 : VIP;
	const char *to = outer_v6 ? MEMBER_V6 : MEMBER;
	struct oxp_probe wanted = target(vip, to, encapsulation);
	struct oxp_service_settings settings = {
		.slots = TEST_SLOTS,
		.encapsulation = encapsulation,
		.dscp = wanted.dscp,
		.sid_function = wanted.sid_function,
	};
	struct oxp_member member = {
		.address = wanted.member, .weight = 1, .admin_up = 1};
	struct oxp_key key = tcp_key(vip, 80);

	key.protocol = protocol;
	set_service_as(node, &key, &settings, &member, 1);
	set_probes(&wanted, 1);
	for (int n = 1; n < 1000; n += 111) {
		struct frame in, expected, out;
		uint32_t mark = MARK;
		int action;

		make_probe(&in, v6, protocol, n);
		assert_int_equal(run(forward, &in, &expected), XDP_TX);
		action = run_marked(&in, &out, &mark);
		/* the kernel finds the next hop where it had another family */
		assert_int_equal(action,
				 v6 == outer_v6 ? TC_ACT_OK : TC_ACT_REDIRECT);
		assert_int_equal(mark, v6 == outer_v6 ? MARK : 0);
		assert_int_equal(out.length, expected.length);
		assert_memory_equal(out.data, in.data, 12);
		assert_memory_equal(out.data + 14, expected.data + 14,
				    out.length - 14);
		if (encapsulation == OXP_DSCP && protocol != IPPROTO_SCTP)
			assert_int_equal(wrong_by(out.data + 14), 0);
	}
	assert_int_equal(oxp_services_delete(node, &key, 1, error), 1);
}

static void test_probes_are_encapsulated_as_clients_packets(void **state)
{
	uint64_t runs = 0;

	(void)state;
	for (uint8_t kind = OXP_IPIP; kind <= OXP_SRV6; kind++)
		for (int families = 0; families < 4; families++) {
			bool v6 = families & 1, outer_v6 = families & 2;

			if ((kind == OXP_DSCP && v6 != outer_v6) ||
			    (kind == OXP_SRV6 && !outer_v6))
				continue;
			for (int i = 0; i < 3; i++, runs++)
				same_as_forwarded(kind, v6, outer_v6,
						  protocols[i]);
		}
	assert_int_equal(runs, 3 * (3 * 4 + 2 + 2));
	assert_int_equal(outcome(OXP_PROBE_SENT), 9 * runs);
}

/* The same with the bits of outer sources that differ from flow to flow. */
static void test_probes_have_the_entropy_of_clients_packets(void **state)
{
	struct oxp_node_settings settings = {
		.source_v4 = address("10.0.0.0"),
		.source_v6 = address("fd00::"),
		.entropy_v4 = 8,
		.entropy_v6 = 16,
	};

	(void)state;
	assert_int_equal(oxp_node_settings_set(node, &settings, error), 0);
	for (int families = 0; families < 4; families++)
		same_as_forwarded(OXP_IPIP, families & 1, families & 2,
				  IPPROTO_TCP);
}

/* What the forwarding program answers itself. */
static void test_echo_requests_of_checks_reach_the_member(void **state)
{
	struct oxp_probe wanted = target(VIP_V6, MEMBER_V6, OXP_DSCP);
	struct frame in, out;
	uint32_t mark = MARK;

	(void)state;
	set_probes(&wanted, 1);
	make_probe(&in, true, IPPROTO_ICMPV6, 8);
	in.data[14 + 40] = 128;
	fix_l4(in.data + 14, IPPROTO_ICMPV6);
	assert_int_equal(run_marked(&in, &out, &mark), TC_ACT_OK);
	assert_int_equal(wrong_by(out.data + 14), 0);
	assert_memory_equal(out.data + 14 + 24, wanted.member.bytes, 16);

	wanted = target(VIP, MEMBER, OXP_IPIP);
	set_probes(&wanted, 1);
	make_probe(&in, false, IPPROTO_ICMP, 8);
	mark = MARK;
	assert_int_equal(run_marked(&in, &out, &mark), TC_ACT_OK);
	/* the link header is not ours to write */
	assert_memory_equal(out.data, in.data, 14);
	assert_int_equal(out.length, in.length + 20);
	assert_int_equal(out.data[14 + 9], IPPROTO_IPIP);
	assert_memory_equal(out.data + 14 + 16, wanted.member.bytes + 12, 4);
	assert_memory_equal(out.data + 34, in.data + 14, in.length - 14);
}

static void expect(const struct frame *in, uint32_t mark, int action,
		   enum oxp_probe_outcome which)
{
	uint64_t before = outcome(which);
	struct frame out;

	assert_int_equal(run_marked(in, &out, &mark), action);
	assert_int_equal(outcome(which), before + 1);
}

static void test_probes_that_fit_no_target_are_dropped(void **state)
{
	struct oxp_probe wanted = target(VIP, MEMBER, OXP_IPIP);
	struct oxp_node_settings settings = {};
	struct frame in;

	(void)state;
	make_probe(&in, false, IPPROTO_TCP, 1);
	expect(&in, MARK, TC_ACT_SHOT, OXP_PROBE_DROP_UNKNOWN);
	set_probes(&wanted, 1);
	expect(&in, MARK, TC_ACT_OK, OXP_PROBE_SENT);
	expect(&in, MARK + 1, TC_ACT_SHOT, OXP_PROBE_DROP_UNKNOWN);
	in.data[14 + 19] ^= 1;
	expect(&in, MARK, TC_ACT_SHOT, OXP_PROBE_DROP_DESTINATION);
	make_probe(&in, true, IPPROTO_TCP, 1);
	expect(&in, MARK, TC_ACT_SHOT, OXP_PROBE_DROP_DESTINATION);
	put16(in.data + 12, 0x0806);
	expect(&in, MARK, TC_ACT_SHOT, OXP_PROBE_DROP_DESTINATION);
	make_probe(&in, false, IPPROTO_TCP, 1);
	assert_int_equal(oxp_node_settings_set(node, &settings, error), 0);
	expect(&in, MARK, TC_ACT_SHOT, OXP_PROBE_DROP_NO_SOURCE);
	wanted = target(VIP, MEMBER_V6, OXP_GUE);
	set_probes(&wanted, 1);
	expect(&in, MARK, TC_ACT_SHOT, OXP_PROBE_DROP_NO_SOURCE);
}

static void test_packets_with_other_marks_are_untouched(void **state)
{
	const uint32_t others[] = {0, 1, MARK - OXP_PROBE_MARK, 0x4e000abc,
				   0x50000abc};
	struct frame in, out;

	(void)state;
	make_probe(&in, false, IPPROTO_TCP, 1);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		uint32_t mark = others[i];

		assert_int_equal(run_marked(&in, &out, &mark), TC_ACT_UNSPEC);
		assert_int_equal(mark, others[i]);
		assert_int_equal(out.length, in.length);
		assert_memory_equal(out.data, in.data, in.length);
	}
	for (int i = 0; i < OXP_PROBE_OUTCOMES; i++)
		assert_int_equal(outcome(i), 0);
}

/* The table */

static void expect_probes(const struct oxp_probe *wanted, uint32_t count)
{
	struct oxp_probe found[8];

	assert_int_equal(oxp_probes_list(node, found, 8, error), count);
	assert_memory_equal(found, wanted, count * sizeof(*wanted));
}

static void test_targets_are_listed_as_set(void **state)
{
	struct oxp_probe wanted[4];

	(void)state;
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

static void test_refused_targets_leave_the_others(void **state)
{
	struct oxp_probe wanted = target(VIP, MEMBER, OXP_IPIP);

	(void)state;
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

/* Nothing is there, and nothing is made by looking. */
static void test_node_without_probes_has_nothing_of_them(void **state)
{
	uint64_t count;
	char *path;

	(void)state;
	assert_int_equal(oxp_probes_remove(node, error), 1);
	assert_int_equal(oxp_probes_remove(node, error), 0);
	assert_int_equal(oxp_probes_list(node, NULL, 0, error), 0);
	assert_int_equal(oxp_probe_outcomes_list(node, &count, 1, error), 0);
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

static void test_filter_is_attached_once_and_others_are_kept(void **state)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = 1,
		    .attach_point = BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, place, .handle = 0x6f7870, .priority = 1);
	LIBBPF_OPTS(bpf_tc_opts, beside, .handle = 5, .priority = 1);
	uint32_t first;

	(void)state;
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	assert_int_equal(detach_probes(error), 0);
	assert_int_equal(oxp_probe_attach(node, 4711, error), -ENODEV);
	if (oxp_probe_attach(node, 1, error))
		fail_msg("attach: %s", error);
	first = filter();
	assert_int_not_equal(first, 0);
	/* it stays as it is, unless the targets are others */
	assert_int_equal(oxp_probe_attach(node, 1, error), 0);
	assert_int_equal(filter(), first);
	remove_folder(node, PROBES_FOLDER);
	set_probes(NULL, 0);
	assert_int_equal(oxp_probe_attach(node, 1, error), 0);
	assert_int_not_equal(filter(), first);
	beside.prog_fd = mark_probe;
	assert_int_equal(bpf_tc_attach(&hook, &beside), 0);
	assert_int_equal(detach_probes(error), 1);
	assert_int_equal(filter(), 0);
	/* another's filter stays; a query fills the options anew */
	beside.prog_fd = beside.prog_id = beside.flags = 0;
	assert_int_equal(bpf_tc_query(&hook, &beside), 0);

	assert_int_equal(oxp_probe_attach(node, 1, error), 0);
	assert_int_equal(oxp_probes_remove(node, error), 1);
	assert_int_equal(filter(), 0);
	set_probes(NULL, 0);
	assert_int_equal(oxp_probe_attach(node, 1, error), 0);
	assert_int_equal(oxp_test_destroy(node, error), 0);
	assert_int_equal(filter(), 0);

	/* somebody else's place: a program of another name */
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_probes_are_encapsulated_as_clients_packets),
		TEST(test_probes_have_the_entropy_of_clients_packets),
		TEST(test_echo_requests_of_checks_reach_the_member),
		TEST(test_probes_that_fit_no_target_are_dropped),
		TEST(test_packets_with_other_marks_are_untouched),
		TEST(test_targets_are_listed_as_set),
		TEST(test_refused_targets_leave_the_others),
		TEST(test_node_without_probes_has_nothing_of_them),
		TEST(test_filter_is_attached_once_and_others_are_kept),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
