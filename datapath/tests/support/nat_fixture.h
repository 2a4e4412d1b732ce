/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node with a pool of one address and services of two groups, packets from
 * clients and members, and control over time.
 */
#ifndef OXP_NAT_FIXTURE_H
#define OXP_NAT_FIXTURE_H

#include <arpa/inet.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "fixture.h"
#include "nat_table/addresses.h"
#include "nat_table/flows.h"
#include "nat_table/ports.h"
#include "nat_table/shares.h"
#include "nat_table/tables.h"

#define SYN 0x02
#define SYN_ACK 0x12
#define ACK 0x10
#define FIN 0x11
#define RST 0x04

#define POOL "203.0.113.1"
#define MEMBER "10.1.0.1"
#define POOL_PORTS (65536 - OXP_NAT_PORT_MIN)
#define ALL_PORTS 65280 /* as nat_flows: more than the pool has */
/* Groups of the services below. */
#define OURS 1
#define THEIRS 2

static const struct flow ours = {CLIENT, VIP, 40000, 80, IPPROTO_TCP};
static const struct flow ours_udp = {CLIENT, VIP, 40000, 53, IPPROTO_UDP};
static const struct flow theirs = {CLIENT, VIP, 40000, 81, IPPROTO_TCP};

/* One member at `port`. `settings` need not contain what all NAT services here
 * have in common. */
static inline void set_nat_as(const struct flow *to,
			      struct oxp_service_settings settings,
			      uint16_t port)
{
	struct oxp_key key = key_of(to);
	struct oxp_member member;

	settings.slots = TEST_SLOTS;
	settings.flags |= OXP_SERVICE_NAT;
	make_members(&member, 1, 0, 0);
	member.port = port;
	set_service_as(node, &key, &settings, &member, 1);
}

static inline void set_nat(const struct flow *to, uint16_t group,
			   uint32_t flows, uint16_t port)
{
	const struct oxp_service_settings settings = {
		.nat_group = group,
		.nat_flows = flows,
	};

	set_nat_as(to, settings, port);
}

/* The members of both groups have the same address, with different ports. */
static inline int set_up_nat(void **state)
{
	const struct oxp_network pool = {address(POOL), 32};

	(void)state;
	node = fresh_state();
	assert_ok(oxp_nat_pools_set(node, &pool, 1, error));
	program = forward_program(node);
	set_nat(&ours, OURS, 0, 8080);
	set_nat(&ours_udp, OURS, 0, 0);
	set_nat(&theirs, THEIRS, 0, 8081);
	return 0;
}

static inline struct nat_flow *pool_table(void)
{
	struct oxp_address pool = address(POOL);
	int64_t number = find_pool_address(node, pool.bytes);
	struct nat_flow *table;

	assert_true(number >= 0);
	table = nat_table(node, number);
	assert_non_null(table);
	return table;
}

/* Returns how many ports a group has. */
static inline uint32_t flows_of(uint16_t group)
{
	return nat_groups(node)[group].flows;
}

static inline struct oxp_service service_of(const struct flow *to)
{
	struct oxp_key key = key_of(to);
	struct oxp_service service;

	assert_ok(oxp_service_get(node, &key, &service, error));
	return service;
}

static inline const char *client_text(uint32_t client)
{
	static char text[INET_ADDRSTRLEN];

	snprintf(text, sizeof(text), "20.%u.%u.%u", client >> 16 & 255,
		 client >> 8 & 255, client & 255);
	return text;
}

/* Returns the node's flow of one of many clients, or NULL. */
static inline struct nat_flow *find_flow(uint32_t client, const struct flow *to)
{
	struct oxp_nat_filter filter = {
		.service = key_of(to),
		.client = address(client_text(client)),
		.client_port = to->source_port,
	};
	struct oxp_nat_flow found;
	int count = oxp_nat_flows_list(node, &filter, &found, 1, error);

	assert_in_range(count, 0, 1);
	return count ? pool_table() + found.pool_port : NULL;
}

/* Send a packet of one of many clients. Returns the XDP action. */
static inline int from_client(uint32_t client, const struct flow *to,
			      uint8_t flags)
{
	const struct variation with = {.tcp_flags = flags};
	struct flow flow = *to;
	struct frame frame;

	flow.source = client_text(client);
	make_frame(&frame, &flow, 0, &with);
	return run(program, &frame, NULL);
}

/* Send an answer of the flow's member with `payload` bytes. */
static inline int from_member(const struct nat_flow *flow, size_t payload,
			      uint8_t flags)
{
	const struct variation with = {.tcp_flags = flags};
	const struct flow answer = {MEMBER, POOL, ntohs(flow->member_port),
				    (uint16_t)(flow - pool_table()),
				    flow->protocol};
	struct frame frame;

	make_frame(&frame, &answer, payload, &with);
	return run(program, &frame, NULL);
}

static inline struct nat_flow *open_flow(uint32_t client, const struct flow *to)
{
	struct nat_flow *flow;

	assert_int_equal(from_client(client, to, SYN), XDP_TX);
	flow = find_flow(client, to);
	assert_non_null(flow);
	return flow;
}

static inline struct nat_flow *establish(uint32_t client, const struct flow *to)
{
	struct nat_flow *flow = open_flow(client, to);

	assert_int_equal(from_member(flow, 0, SYN_ACK), XDP_TX);
	assert_int_equal(from_client(client, to, ACK), XDP_TX);
	assert_int_equal(nat_state_of(flow->state), NAT_ESTABLISHED);
	return flow;
}

/* Packets pass both ways, and the flow stays established. */
static inline void expect_alive(uint32_t client, const struct flow *to)
{
	struct nat_flow *flow = find_flow(client, to);

	assert_non_null(flow);
	assert_int_equal(nat_state_of(flow->state), NAT_ESTABLISHED);
	assert_int_equal(from_client(client, to, ACK), XDP_TX);
	assert_int_equal(from_member(flow, 0, ACK), XDP_TX);
	assert_ptr_equal(find_flow(client, to), flow);
}

static inline void expect_full(uint32_t client, const struct flow *to)
{
	uint64_t before = outcome(OXP_DROP_NAT_FULL).packets;

	assert_int_equal(from_client(client, to, SYN), XDP_DROP);
	assert_int_equal(outcome(OXP_DROP_NAT_FULL).packets, before + 1);
	assert_null(find_flow(client, to));
}

/* Derive from the flows what packets would have recorded. */
static inline void note_flows(uint32_t address)
{
	const struct nat_flow *table = nat_table(node, address);

	for (uint32_t word = FIRST_PORT_WORD; word < NAT_PORT_WORDS; word++) {
		uint64_t taken = 0;

		for (uint32_t i = 0; i < 64; i++)
			if (table[word * 64 + i].state != NAT_FREE)
				taken |= 1ULL << i;
		correct_ports(node, address, word, taken);
	}
	share_nat_ports(node);
}

/* Give all ports below `end` a flow like this one, in the same group. */
static inline void fill_ports_like(const struct nat_flow *flow, uint32_t end)
{
	struct oxp_address pool = address(POOL);
	struct nat_flow *table = pool_table();
	uint32_t more = 0;

	for (uint32_t port = OXP_NAT_PORT_MIN; port < end; port++) {
		if (table[port].state != NAT_FREE)
			continue;
		table[port] = *flow;
		more++;
	}
	nat_groups(node)[flow->group].flows += more;
	note_flows(find_pool_address(node, pool.bytes));
}

static inline void fill_pool_like(const struct nat_flow *flow)
{
	fill_ports_like(flow, 65536);
}

/* Give all ports a flow of ours that its member has reset. */
static inline void fill_pool_in_time_wait(void)
{
	struct nat_flow *flow;

	set_nat(&ours, OURS, ALL_PORTS, 8080);
	flow = establish(0, &ours);
	assert_int_equal(from_member(flow, 0, RST), XDP_TX);
	fill_pool_like(flow);
}

/* The time that packets use is up to 8 ticks old and may be of the unit before:
 * make the next packet ask the clock again. */
static inline uint32_t time_for_packets(void)
{
	node->config->last_asked = 0;
	return nat_now();
}

/* Sets each CPU's counts of the current second, which is returned. */
static inline uint32_t set_scratch(struct nat_scratch each)
{
	int cpus = libbpf_num_possible_cpus();
	struct nat_scratch *all = calloc(cpus, sizeof(*all));
	uint32_t only = 0, now = time_for_packets();

	assert_non_null(all);
	each.seek_time = now;
	for (int i = 0; i < cpus; i++)
		all[i] = each;
	assert_int_equal(bpf_map_update_elem(node->map[MAP_NAT_SCRATCH], &only,
					     all, BPF_ANY),
			 0);
	free(all);
	return now;
}

/* Makes the flow's last packet this old. */
static inline void silent_for(struct nat_flow *flow, uint32_t seconds)
{
	flow->seen = time_for_packets() - seconds;
}

/* Applies to all flows in TIME_WAIT. */
static inline void all_silent_for(uint32_t seconds)
{
	struct nat_flow *table = pool_table();

	for (uint32_t port = OXP_NAT_PORT_MIN; port < 65536; port++)
		if (nat_state_of(table[port].state) == NAT_TIME_WAIT)
			silent_for(&table[port], seconds);
}

static inline void age(void)
{
	assert_true(oxp_slots_age(node, error) >= 0);
	node->config->ticked -= 60000; /* ms */
	assert_true(oxp_slots_age(node, error) >= 0);
}

#define NAT_TEST(name) TEST_WITH(name, set_up_nat, tear_down)

#endif
