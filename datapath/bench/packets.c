// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of a packet, by case, each a line of JSON on standard output. The
 * first argument is a substring of the names of cases to run, the second the
 * number of quiet rounds of each. Each case is measured in turn with the floor
 * program, net of the harness.
 */
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "cases.h"
#include "node/uplinks.h"

struct bench_case {
	const char *name;
	struct traffic traffic;
};

static const struct bench_case usual[] = {
	{"IPv4 TCP established, 1 flow", {VIP, IPPROTO_TCP, 0x10, .flows = 1}},
	{"IPv4 TCP established, 1 Ki flows",
	 {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 10}},
	{"IPv4 TCP established, 128 Ki flows",
	 {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 17}},
	{"IPv4 TCP established, 1 Mi flows",
	 {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 20}},
	{"SYN, a new flow each packet",
	 {VIP, IPPROTO_TCP, 0x02, .flows = 1 << 24, .new_flows = true}},
	{"SYN with options, MSS clamped",
	 {VIP, IPPROTO_TCP, 0x02, 20, .flows = 1 << 24, .new_flows = true}},
	{"IPv4 UDP, 1 flow", {VIP, IPPROTO_UDP, .flows = 1}},
	{"IPv6 TCP, 1 flow", {VIP_V6, IPPROTO_TCP, 0x10, .flows = 1}},
	{"IPv6 TCP, 1 Mi flows", {VIP_V6, IPPROTO_TCP, 0x10, .flows = 1 << 20}},
	{"not a VIP, IPv4, pass",
	 {"203.0.113.1", IPPROTO_TCP, 0x10, .flows = 1, .action = XDP_PASS}},
	{"not a VIP, IPv6, pass",
	 {"2001:db8:ffff::1", IPPROTO_TCP, 0x10, .flows = 1,
	  .action = XDP_PASS}},
};

static const struct bench_case changing[] = {
	{"10 % of the slots open, 1 Ki flows",
	 {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 10, .sets_up_flows = true}},
	{"10 % of the slots open, 128 Ki flows",
	 {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 17, .sets_up_flows = true}},
	{"the same under a SYN flood",
	 {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 17, .flood_before = true,
	  .sets_up_flows = true}},
	{"10 % of the slots open, 1 Mi flows",
	 {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 20, .sets_up_flows = true}},
	{"10 % of the slots open, SYN flood",
	 {VIP, IPPROTO_TCP, 0x02, .flows = 1 << 24, .new_flows = true}},
};

/* Ports from 8001 on. */
static const struct {
	const char *name;
	const char *member; /* the last byte counts up */
	enum oxp_encapsulation encapsulation;
} outer_headers[] = {
	{"IPIP, 4 in 6", "fd00:1::1", OXP_IPIP},
	{"GUE over IPv4", "10.2.0.1", OXP_GUE},
	{"GUE over IPv6", "fd00:1::1", OXP_GUE},
	{"GRE over IPv4", "10.2.0.1", OXP_GRE},
	{"GRE over IPv6", "fd00:1::1", OXP_GRE},
	{"DSCP", "10.2.0.1", OXP_DSCP},
	{"SRv6", "fd00:1::1", OXP_SRV6},
	{"Geneve over IPv4", "10.2.0.1", OXP_GENEVE},
	{"Geneve over IPv6", "fd00:1::1", OXP_GENEVE},
};

/* Ports from 8201 on. */
static const struct {
	const char *name;
	const char *members[2]; /* before and now */
	enum oxp_encapsulation encapsulation;
} with_alternatives[] = {
	{"GUE over IPv4, an alternative", {"10.2.0.1", "10.3.0.1"}, OXP_GUE},
	{"GUE over IPv6, an alternative", {"fd00:1::1", "fd00:2::1"}, OXP_GUE},
	{"SRv6, an alternative", {"fd00:1::1", "fd00:2::1"}, OXP_SRV6},
	{"Geneve over IPv4, an alternative",
	 {"10.2.0.1", "10.3.0.1"},
	 OXP_GENEVE},
	{"Geneve over IPv6, an alternative",
	 {"fd00:1::1", "fd00:2::1"},
	 OXP_GENEVE},
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void measure_outer_headers(void)
{
	for (size_t i = 0; i < LENGTH(outer_headers); i++) {
		struct oxp_service_settings settings = {
			.encapsulation = outer_headers[i].encapsulation,
			.dscp = outer_headers[i].encapsulation == OXP_DSCP ? 10
									   : 0,
		};
		struct traffic traffic = {VIP, IPPROTO_TCP, 0x10,
					  .port = 8001 + i, .flows = 1 << 10};

		set(tcp_key(VIP, 8001 + i), &settings, outer_headers[i].member,
		    MEMBERS);
		run_case(outer_headers[i].name, traffic);
	}
}

/* The source of a case's frames. */
#define SOURCE "20.0.0.0"
#define SOURCE_PORT 0x8000

/* Returns the length of the frame that a packet of the service becomes. */
static size_t frame_length(uint16_t port)
{
	const struct flow flow = {SOURCE, VIP, SOURCE_PORT, port, IPPROTO_TCP};
	const struct variation established = {.tcp_flags = 0x10};
	static struct frame in, out;

	make_frame(&in, &flow, 0, &established);
	assert_int_equal(run(program, &in, &out), XDP_TX);
	return out.length;
}

static void stop_watching(void)
{
	node->config->watched = node->config->counted = 0;
	assert_int_equal(watch_uplinks(node, error), 0);
}

static void close_slots(void)
{
	int open = oxp_slots_age(node, error);

	while (open > 0) {
		node->config->ticked -= 60000; /* ms */
		open = oxp_slots_age(node, error);
	}
	assert_int_equal(open, 0);
	/* ticks start watching, as there are few packets */
	stop_watching();
}

/* Every slot is closed and had another owner before. */
static void measure_alternatives(void)
{
	const struct oxp_service_settings base = {
		.flags = OXP_SERVICE_SECOND_CHANCE};

	for (size_t i = 0; i < LENGTH(with_alternatives); i++) {
		struct oxp_service_settings settings = base;
		struct oxp_member members[2 * MEMBERS];
		struct oxp_key key = tcp_key(VIP, 8201 + i);
		const struct traffic traffic = {VIP, IPPROTO_TCP, 0x10,
						.port = 8201 + i,
						.flows = 1 << 10};
		size_t usual_length;

		settings.encapsulation = with_alternatives[i].encapsulation;
		members_like(members, with_alternatives[i].members[0]);
		members_like(members + MEMBERS,
			     with_alternatives[i].members[1]);
		set_service_as(node, &key, &settings, members, MEMBERS);
		usual_length = frame_length(8201 + i);
		for (int j = 0; j < MEMBERS; j++)
			members[j].weight = 0;
		set_service_as(node, &key, &settings, members, 2 * MEMBERS);
		close_slots();
		assert_true(frame_length(8201 + i) > usual_length);
		run_case(with_alternatives[i].name, traffic);
	}
}

/* An additional member has changed a tenth of the slots, but not the flow's. */
static void measure_beside_changed(void)
{
	const struct oxp_service_settings settings = {
		.flags = OXP_SERVICE_SECOND_CHANCE, .encapsulation = OXP_GUE};
	struct traffic traffic = {VIP, IPPROTO_TCP, 0x10, .port = 8211,
				  .flows = 1};
	size_t usual_length;

	for (;; traffic.port++) {
		struct oxp_key key = tcp_key(VIP, traffic.port);

		assert_in_range(traffic.port, 8211, 8260);
		set(key, &settings, "10.2.0.1", MEMBERS - 1);
		usual_length = frame_length(traffic.port);
		set(key, &settings, "10.2.0.1", MEMBERS);
		close_slots();
		if (frame_length(traffic.port) == usual_length)
			break;
	}
	run_case("GUE over IPv4, beside slots that changed", traffic);
}

/* `count` networks, none adjacent to another; the first contains all
 * clients. */
static void measure_allowed(const char *name, uint16_t port, uint32_t count)
{
	struct oxp_network networks[1024];
	const struct oxp_service_settings settings = {.allowed = networks,
						      .allowed_count = count};
	struct traffic traffic = {VIP, IPPROTO_TCP, 0x10, .port = port,
				  .flows = 1 << 10};

	networks[0] = (struct oxp_network){address("20.0.0.0"), 8};
	for (uint32_t i = 1; i < count; i++) {
		networks[i] = (struct oxp_network){address("22.0.0.0"), 17};
		networks[i].address.bytes[12] += i >> 8;
		networks[i].address.bytes[13] = i;
	}
	set(tcp_key(VIP, port), &settings, "10.2.0.1", MEMBERS);
	run_case(name, traffic);
}

static void measure_features(void)
{
	struct oxp_service_settings settings = {.flags = OXP_SERVICE_SOURCE};
	struct oxp_member members[MEMBERS];
	struct oxp_key key;
	struct traffic traffic = {VIP, IPPROTO_TCP, 0x10, .port = 8101,
				  .flows = 1 << 10};

	set(tcp_key(VIP, 8101), &settings, "10.2.0.1", MEMBERS);
	run_case("SOURCE_IP", traffic);
	measure_allowed("allowed_cidrs, 16 networks", 8102, 16);
	measure_allowed("allowed_cidrs, 1,024 networks", 8104, 1024);
	members_like(members, "10.2.0.1");
	for (int i = 0; i < MEMBERS; i++)
		members[i].port = 8080;
	traffic.port = 8103;
	key = tcp_key(VIP, 8103);
	if (oxp_service_set(node, &key, NULL, members, MEMBERS, NULL, error))
		fail_msg("set: %s", error);
	run_case("ports of members are written", traffic);
}

static void measure_changing(void)
{
	/* an additional member takes a tenth of the slots */
	set(tcp_key(VIP, 80), NULL, "10.1.0.1", MEMBERS);
	for (size_t i = 0; i < LENGTH(changing); i++)
		run_case(changing[i].name, changing[i].traffic);
}

/* Measure an established flow whose packets are watched. */
static void measure_watched(void)
{
	const struct traffic one = {VIP, IPPROTO_TCP, 0x10, .flows = 1};
	const struct traffic many = {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 17};

	node->config->watched = UINT64_MAX;
	assert_int_equal(watch_uplinks(node, error), 0);
	run_case("IPv4 TCP, watched, 1 flow", one);
	run_case("IPv4 TCP, watched, 128 Ki flows", many);
	stop_watching();
}

#define POOL "203.0.113.1"

/* Begin a flow of the service. Returns its pool port. */
static uint16_t open_nat_flow(uint16_t port)
{
	const struct flow flow = {CLIENT, VIP, 40000, port, IPPROTO_TCP};
	const struct variation syn = {.tcp_flags = 0x02};
	const struct oxp_nat_filter own = {.service = tcp_key(VIP, port)};
	struct oxp_nat_flow found;
	static struct frame frame;

	make_frame(&frame, &flow, 0, &syn);
	assert_int_equal(run(program, &frame, NULL), XDP_TX);
	assert_int_equal(oxp_nat_flows_list(node, &own, &found, 1, error), 1);
	return found.pool_port;
}

/* One program, with and without NAT. */
static void measure_nat(void)
{
	const struct oxp_service_settings settings = {.flags = OXP_SERVICE_NAT};
	const struct oxp_network pool = {address(POOL), 32};
	struct oxp_key answering = tcp_key(VIP, 8302);
	struct oxp_member member = {.address = address(SOURCE),
				    .port = SOURCE_PORT,
				    .weight = 1,
				    .admin_up = 1};
	struct traffic traffic = {VIP, IPPROTO_TCP, 0x10, .flows = 1 << 10};
	const struct traffic begins = {
		VIP,          IPPROTO_TCP,      0x02,
		.port = 8301, .flows = 1 << 24, .new_flows = true};
	struct traffic answer = {POOL, IPPROTO_TCP, 0x10, .flows = 1};

	if (oxp_nat_pools_set(node, &pool, 1, error))
		fail_msg("pool: %s", error);
	close(program);
	program = forward_program(node);
	set(tcp_key(VIP, 80), NULL, "10.1.0.1", MEMBERS);
	set(tcp_key(VIP, 8301), &settings, "10.2.0.1", MEMBERS);
	set_service_as(node, &answering, &settings, &member, 1);
	run_case("a node with NAT: IPIP, 1 Ki flows", traffic);
	traffic.port = 8301;
	traffic.sets_up_flows = true;
	run_case("NAT44, known flows, 1 Ki flows", traffic);
	answer.port = open_nat_flow(8302);
	run_case("NAT44, answers of a member, 1 flow", answer);
	run_case("NAT44, a new flow each packet", begins);
}

static void bench(void **state)
{
	(void)state;
	open_node(0, "/mnt/bpf/bench");
	set(tcp_key(VIP, 80), NULL, "10.1.0.1", MEMBERS - 1);
	set(udp_key(VIP, 80), NULL, "10.1.0.1", MEMBERS);
	set(tcp_key(VIP_V6, 80), NULL, "fd00:1::1", MEMBERS);
	for (size_t i = 0; i < LENGTH(usual); i++)
		run_case(usual[i].name, usual[i].traffic);
	measure_watched();
	measure_outer_headers();
	measure_features();
	/* before slots are closed below: some are open here */
	measure_changing();
	measure_alternatives();
	measure_beside_changed();
	close_node();
	open_node(TEST_SLOTS, "/mnt/bpf/many");
	measure_ports();
	close_node();
	open_node(0, "/mnt/bpf/vips");
	measure_vips();
	close_node();
	open_node(TEST_SLOTS, "/mnt/bpf/nat");
	measure_nat();
	close_node();
}

int main(int count, char **arguments)
{
	const struct CMUnitTest cases[] = {cmocka_unit_test(bench)};

	if (count > 1)
		wanted_names = arguments[1];
	if (count > 2)
		quiet_runs_wanted = atoi(arguments[2]);
	return cmocka_run_group_tests(cases, enter_namespace, NULL);
}
