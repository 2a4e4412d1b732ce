// SPDX-License-Identifier: Apache-2.0
/* Members named by one address and reached at another: what a change of only
 * the tunnel leaves unchanged, and what is refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <unistd.h>

#include "service_fixture.h"

#define MEMBERS 20
#define FLOWS 256
#define HOST_A "10.9.0.1"
#define HOST_B "10.9.0.2"
#define SYN 2
#define ACK 16

static struct oxp_tunnel geneve(const char *host, uint32_t key)
{
	return (struct oxp_tunnel){.address = address(host),
				   .encapsulation = OXP_GENEVE,
				   .key = key};
}

/* Put member i behind the host, with key `first` + i. */
static void put_behind(struct oxp_member *members, uint32_t count,
		       const char *host, uint32_t first)
{
	for (uint32_t i = 0; i < count; i++)
		members[i].tunnel = geneve(host, first + i);
}

/* Outer destination and VNI of a Geneve packet over IPv4. */
struct way {
	uint32_t host;
	uint32_t key;
};

static struct way way_of(int program, const struct frame *in)
{
	struct frame out;
	struct way way;

	assert_int_equal(run(program, in, &out), XDP_TX);
	assert_int_equal(out.data[14 + 9], IPPROTO_UDP);
	assert_int_equal(out.length, in->length + 36);
	memcpy(&way.host, out.data + 14 + 16, sizeof(way.host));
	memcpy(&way.key, out.data + 14 + 32, sizeof(way.key));
	way.host = ntohl(way.host);
	way.key = ntohl(way.key) >> 8;
	return way;
}

static uint32_t number_of(const char *host)
{
	struct oxp_address parsed = address(host);
	uint32_t number;

	memcpy(&number, parsed.bytes + 12, sizeof(number));
	return ntohl(number);
}

static void make_flow(struct frame *out, int n, uint8_t flags)
{
	struct flow flow = {CLIENT, VIP, 1024 + n, 80, IPPROTO_TCP};
	struct variation with = {.tcp_flags = flags};

	make_frame(out, &flow, 10, &with);
}

struct seen {
	uint16_t slots[TEST_SLOTS], before[TEST_SLOTS];
	struct oxp_member_state member[MEMBERS];
	struct oxp_service service;
};

static void look(struct seen *out)
{
	uint32_t before_slots;

	memset(out, 0, sizeof(*out));
	out->service = show();
	assert_int_equal(oxp_table_get(node, &http, out->slots, out->before,
				       TEST_SLOTS, &before_slots, error),
			 TEST_SLOTS);
	assert_int_equal(
		oxp_members_list(node, &http, out->member, MEMBERS, error),
		out->service.members);
}

TEST(test_change_of_tunnel_changes_nothing_else)
{
	struct oxp_health_result up[MEMBERS];
	struct oxp_member members[MEMBERS];
	struct seen before, after;

	make_members(members, MEMBERS, 1, 1);
	set_service(node, &http, members, MEMBERS);
	for (int i = 0; i < MEMBERS; i++)
		up[i] = (struct oxp_health_result){.check = 1 + i,
						   .up = i != 3};
	assert_true(oxp_health_apply(node, up, MEMBERS, error) >= 0);
	look(&before);
	put_behind(members, MEMBERS, HOST_A, 1);
	set_service(node, &http, members, MEMBERS);
	look(&after);
	assert_int_equal(before.service.open_slots, after.service.open_slots);
	assert_true(before.service.members_state !=
		    after.service.members_state);
	assert_memory_equal(before.slots, after.slots, sizeof(before.slots));
	assert_memory_equal(before.before, after.before, sizeof(before.before));
	for (int i = 0; i < MEMBERS; i++) {
		assert_memory_equal(&after.member[i].tunnel, &members[i].tunnel,
				    sizeof(members[i].tunnel));
		after.member[i].tunnel = before.member[i].tunnel;
	}
	assert_memory_equal(before.member, after.member, sizeof(before.member));
}

TEST(test_setting_the_same_tunnel_changes_nothing)
{
	struct oxp_member members[MEMBERS];
	uint8_t changed = 9;

	make_members(members, MEMBERS, 1, 0);
	put_behind(members, MEMBERS, HOST_A, 1);
	set_service(node, &http, members, MEMBERS);
	assert_ok(oxp_service_set(node, &http, NULL, members, MEMBERS, &changed,
				  error));
	assert_int_equal(changed, 0);
	members[7].tunnel.key = 1000;
	assert_ok(oxp_service_set(node, &http, NULL, members, MEMBERS, &changed,
				  error));
	assert_int_equal(changed, 1);
}

/* Flows found by the table alone, and flows remembered in slots that change
 * owners. */
TEST(test_flows_keep_their_member_when_it_moves)
{
	int program = forward_program(node);
	struct oxp_member members[MEMBERS];
	static struct frame frame[FLOWS];
	struct way before[FLOWS];
	int remembered = 0;

	make_members(members, MEMBERS, 1, 0);
	put_behind(members, MEMBERS, HOST_A, 1);
	set_service(node, &http, members, MEMBERS / 2);
	set_service(node, &http, members, MEMBERS);
	assert_true(show().open_slots > 0);
	for (int i = 0; i < FLOWS; i++) {
		make_flow(&frame[i], i, i & 1 ? SYN : ACK);
		before[i] = way_of(program, &frame[i]);
		assert_int_equal(before[i].host, number_of(HOST_A));
		remembered += before[i].key > MEMBERS / 2;
		make_flow(&frame[i], i, ACK);
		assert_int_equal(way_of(program, &frame[i]).key, before[i].key);
	}
	assert_true(remembered > 0);
	put_behind(members, MEMBERS, HOST_B, 1);
	set_service(node, &http, members, MEMBERS);
	for (int i = 0; i < FLOWS; i++) {
		struct way after = way_of(program, &frame[i]);

		assert_int_equal(after.key, before[i].key);
		assert_int_equal(after.host, number_of(HOST_B));
	}
	close(program);
}

/* Packets while all members move back and forth; each host has its own keys. */
struct reader {
	int program;
	struct frame frame;
	uint64_t seen[2], mixtures;
	bool stop;
};

static void *read_packets(void *argument)
{
	struct reader *reader = argument;

	while (!__atomic_load_n(&reader->stop, __ATOMIC_RELAXED)) {
		struct way way = way_of(reader->program, &reader->frame);
		bool b = way.key > 100;

		if (way.host == number_of(b ? HOST_B : HOST_A))
			reader->seen[b]++;
		else
			reader->mixtures++;
	}
	return NULL;
}

TEST(test_no_packet_has_one_hosts_address_and_anothers_key)
{
	struct reader reader = {.program = forward_program(node)};
	struct oxp_member members[2][MEMBERS];
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		make_members(members[i], MEMBERS, 1, 0);
		put_behind(members[i], MEMBERS, i ? HOST_B : HOST_A,
			   1 + 100 * i);
	}
	set_service(node, &http, members[0], MEMBERS);
	make_flow(&reader.frame, 1, ACK);
	pthread_create(&thread, NULL, read_packets, &reader);
	for (int i = 0; i < 200; i++)
		set_service(node, &http, members[i & 1], MEMBERS);
	reader.stop = true;
	pthread_join(thread, NULL);
	assert_int_equal(reader.mixtures, 0);
	assert_true(reader.seen[0] && reader.seen[1]);
	close(reader.program);
}

/* Two servers of one host, distinguished by their ports. */
TEST(test_members_of_one_address_may_keep_the_services_port)
{
	struct oxp_member members[2];
	struct seen seen;

	make_members(members, 2, 1, 0);
	members[1].address = members[0].address;
	put_behind(members, 2, HOST_A, 1);
	for (int i = 0; i < 2; i++) {
		members[i].port = 8080 + i;
		members[i].tunnel.keeps_port = 1;
		members[i].tunnel.takes_alternative = i;
	}
	set_service(node, &http, members, 2);
	look(&seen);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(seen.member[i].port, 8080 + i);
		assert_int_equal(seen.member[i].tunnel.keeps_port, 1);
		assert_int_equal(seen.member[i].tunnel.takes_alternative, i);
		assert_int_equal(live_block(node, 0)->member[i].outer_type,
				 OUTER_GENEVE_V4);
	}
}

static void expect_refused(const struct oxp_tunnel *tunnel, int status,
			   const char *why)
{
	struct oxp_member member;

	make_members(&member, 1, 1, 0);
	member.tunnel = *tunnel;
	assert_int_equal(
		oxp_service_set(node, &http, NULL, &member, 1, NULL, error),
		status);
	if (!strstr(error, why) || !strstr(error, "member 10.1.1.1"))
		fail_msg("'%s', wanted is '%s'", error, why);
}

TEST(test_impossible_tunnels_are_refused_by_name)
{
	static const struct {
		const char *host;
		uint8_t encapsulation;
		uint32_t key;
		int status;
		const char *why;
	} wrong[] = {
		{"0.0.0.0", OXP_GENEVE, 1, -EINVAL, "nowhere"},
		{"::", OXP_GENEVE, 1, -EINVAL, "nowhere"},
		{"224.0.0.1", OXP_GENEVE, 1, -EINVAL, "a group"},
		{"ff02::1", OXP_GENEVE, 1, -EINVAL, "a group"},
		{HOST_A, OXP_DSCP, 0, -EINVAL, "encapsulation 3"},
		{HOST_A, 99, 0, -EINVAL, "encapsulation 99"},
		{HOST_A, OXP_SRV6, 0, -EAFNOSUPPORT, "SRv6"},
		{HOST_A, OXP_GENEVE, 1 << 24, -ERANGE, "16777215"},
		{"fd00:9::1", OXP_SRV6, 7, -EINVAL, "last 32 bits"},
		{HOST_A, OXP_IPIP, 7, -EINVAL, "the key 7"},
		{HOST_A, OXP_GUE, 7, -EINVAL, "the key 7"},
		{HOST_A, OXP_GRE, 7, -EINVAL, "the key 7"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct oxp_tunnel tunnel = {
			.address = address(wrong[i].host),
			.encapsulation = wrong[i].encapsulation,
			.key = wrong[i].key,
		};

		expect_refused(&tunnel, wrong[i].status, wrong[i].why);
	}
}

TEST(test_damaged_tunnels_are_found)
{
	struct oxp_member members[2];
	struct block_member *member;

	make_members(members, 2, 1, 0);
	put_behind(members, 2, HOST_A, 1);
	members[1].tunnel = (struct oxp_tunnel){
		.address = address("fd00:9::"),
		.encapsulation = OXP_SRV6,
		.key = 5,
	};
	set_service(node, &http, members, 2);
	assert_ok(oxp_test_verify(node, error));
	member = live_block(node, 0)->member;
#define DAMAGE(field, value)                                                   \
	do {                                                                   \
		typeof(field) was = field;                                     \
		field = value;                                                 \
		assert_int_equal(oxp_test_verify(node, error), 1);             \
		assert_non_null(strstr(error, "do not go to its members"));    \
		field = was;                                                   \
		assert_ok(oxp_test_verify(node, error));                       \
	} while (0)
	DAMAGE(member[0].key, 1U << 24);
	DAMAGE(member[0].tunnel, OXP_GRE + 1);
	DAMAGE(member[0].outer_type, OUTER_GENEVE_V6);
	DAMAGE(member[1].key, 6);
	DAMAGE(member[1].outer[3], htonl(6));
#undef DAMAGE
}

RUN_TESTS(enter_namespace, NULL)
