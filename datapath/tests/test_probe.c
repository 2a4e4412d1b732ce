// SPDX-License-Identifier: Apache-2.0
/* Probes by mark: the program treats them as the forwarding program treats a
 * client's packet, and changes nothing else. */
#include <arpa/inet.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>

#include <bpf/bpf.h>

#include "probe_fixture.h"

#define CLIENT_V6 "2001:db8:c::7"

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

/* Compute the checksum over the packet at `ip` like a receiver; 0 if it is
 * correct. */
static uint16_t checksum_error(const uint8_t *ip)
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
	put16(check, checksum_error(ip));
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
			      uint8_t protocol, uint16_t port,
			      const struct oxp_tunnel *tunnel)
{
	const char *vip = v6 ? VIP_V6 : VIP;
	const char *to = outer_v6 == !tunnel ? MEMBER_V6 : MEMBER;
	struct oxp_probe wanted = target(vip, to, encapsulation);
	struct oxp_service_settings settings = {
		.slots = TEST_SLOTS,
		.encapsulation = encapsulation,
		.dscp = wanted.dscp,
		.sid_function = wanted.sid_function,
	};
	struct oxp_member member = {.address = wanted.member,
				    .weight = 1,
				    .admin_up = 1,
				    .port = port};
	struct oxp_key key = tcp_key(vip, 80);

	wanted.port = port;
	if (tunnel)
		wanted.tunnel = member.tunnel = *tunnel;
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
		/* if the family changed the kernel looks up the next hop */
		assert_int_equal(action,
				 v6 == outer_v6 ? TC_ACT_OK : TC_ACT_REDIRECT);
		assert_int_equal(mark, v6 == outer_v6 ? MARK : 0);
		assert_int_equal(out.length, expected.length);
		assert_memory_equal(out.data, in.data, 12);
		assert_memory_equal(out.data + 14, expected.data + 14,
				    out.length - 14);
		if (encapsulation == OXP_DSCP && protocol != IPPROTO_SCTP)
			assert_int_equal(checksum_error(out.data + 14), 0);
	}
	assert_int_equal(oxp_services_delete(node, &key, 1, error), 1);
}

TEST(test_probes_are_encapsulated_as_clients_packets)
{
	static const uint8_t all[] = {
#define OXP_ENCAPSULATION(name, number, shim, option, text) number,
#include "enumerations.h"
	};
	uint64_t runs = 0;

	for (size_t n = 0; n < sizeof(all); n++)
		for (int families = 0; families < 4; families++) {
			bool v6 = families & 1, outer_v6 = families & 2;
			uint8_t kind = all[n];

			if ((kind == OXP_DSCP && v6 != outer_v6) ||
			    (kind == OXP_SRV6 && !outer_v6))
				continue;
			for (int i = 0; i < 3; i++, runs++)
				same_as_forwarded(kind, v6, outer_v6,
						  protocols[i], 0, NULL);
		}
	assert_int_equal(runs, 3 * (4 * 4 + 2 + 2));
	assert_int_equal(outcome(OXP_PROBE_SENT), 9 * runs);
}

/* The same with bits of the outer source that depend on the flow. */
TEST(test_probes_have_the_entropy_of_clients_packets)
{
	struct oxp_node_settings settings = {
		.source_v4 = address("10.0.0.0"),
		.source_v6 = address("fd00::"),
		.entropy_v4 = 8,
		.entropy_v6 = 16,
	};

	assert_ok(oxp_node_settings_set(node, &settings, error));
	for (int families = 0; families < 4; families++)
		same_as_forwarded(OXP_IPIP, families & 1, families & 2,
				  IPPROTO_TCP, 0, NULL);
}

/* Even if the member is on another host. */
TEST(test_probes_go_through_the_tunnel_of_clients_packets)
{
	static const struct {
		const char *host;
		uint8_t encapsulation;
		uint32_t key;
	} ends[] = {
		{"10.9.0.1", OXP_GENEVE, 0xabcdef},
		{"fd00:9::1", OXP_GENEVE, 1},
		{"fd00:9::", OXP_SRV6, 0xfedc1234},
		{"10.9.0.1", OXP_GRE, 0},
	};

	for (size_t n = 0; n < sizeof(ends) / sizeof(*ends); n++)
		for (int v6 = 0; v6 < 2; v6++) {
			struct oxp_tunnel tunnel = {
				.address = address(ends[n].host),
				.encapsulation = ends[n].encapsulation,
				.key = ends[n].key,
				.keeps_port = n & 1,
			};
			struct oxp_probe is;

			/* the member has the other family */
			same_as_forwarded(OXP_IPIP, v6,
					  strchr(ends[n].host, ':'),
					  IPPROTO_TCP, 8080, &tunnel);
			assert_int_equal(oxp_probes_list(node, &is, 1, error),
					 1);
			assert_memory_equal(&is.tunnel, &tunnel,
					    sizeof(tunnel));
		}
}

/* The member's port, where the forwarding program writes it. */
TEST(test_probes_have_the_port_of_clients_packets)
{
	static const uint8_t kinds[] = {OXP_IPIP, OXP_GUE, OXP_GRE, OXP_DSCP};

	for (size_t n = 0; n < sizeof(kinds); n++)
		for (int v6 = 0; v6 < 2; v6++)
			for (int i = 0; i < 2; i++) /* TCP, UDP */
				same_as_forwarded(kinds[n], v6, v6,
						  protocols[i], 8080, NULL);
}

/* The forwarding program answers these itself. */
TEST(test_echo_requests_of_checks_reach_the_member)
{
	struct oxp_probe wanted = target(VIP_V6, MEMBER_V6, OXP_DSCP);
	struct frame in, out;
	uint32_t mark = MARK;

	set_probes(&wanted, 1);
	make_probe(&in, true, IPPROTO_ICMPV6, 8);
	in.data[14 + 40] = 128;
	fix_l4(in.data + 14, IPPROTO_ICMPV6);
	assert_int_equal(run_marked(&in, &out, &mark), TC_ACT_OK);
	assert_int_equal(checksum_error(out.data + 14), 0);
	assert_memory_equal(out.data + 14 + 24, wanted.member.bytes, 16);

	wanted = target(VIP, MEMBER, OXP_IPIP);
	set_probes(&wanted, 1);
	make_probe(&in, false, IPPROTO_ICMP, 8);
	mark = MARK;
	assert_int_equal(run_marked(&in, &out, &mark), TC_ACT_OK);
	/* the program does not write the link header */
	assert_memory_equal(out.data, in.data, 14);
	assert_int_equal(out.length, in.length + 20);
	assert_int_equal(out.data[14 + 9], IPPROTO_IPIP);
	assert_memory_equal(out.data + 14 + 16, wanted.member.bytes + 12, 4);
	assert_memory_equal(out.data + 34, in.data + 14, in.length - 14);
}

TEST(test_probes_that_fit_no_target_are_dropped)
{
	struct oxp_probe wanted = target(VIP, MEMBER, OXP_IPIP);
	struct oxp_node_settings settings = {};
	struct frame in;

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
	assert_ok(oxp_node_settings_set(node, &settings, error));
	expect(&in, MARK, TC_ACT_SHOT, OXP_PROBE_DROP_NO_SOURCE);
	wanted = target(VIP, MEMBER_V6, OXP_GUE);
	set_probes(&wanted, 1);
	expect(&in, MARK, TC_ACT_SHOT, OXP_PROBE_DROP_NO_SOURCE);
}

TEST(test_packets_with_other_marks_are_untouched)
{
	const uint32_t others[] = {0, 1, MARK - OXP_PROBE_MARK, 0x4e000abc,
				   0x50000abc};
	struct frame in, out;

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

RUN_TESTS(enter_namespace, NULL)
