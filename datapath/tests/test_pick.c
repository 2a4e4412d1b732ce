// SPDX-License-Identifier: Apache-2.0
/* oxp_test_pick() returns the member to which the program then sends, and QUIC
 * server IDs are CRCs as in RFC 3720. */
#include <arpa/inet.h>
#include <errno.h>

#include "crc32c.h"
#include "fixture.h"

#define CLIENTS 300
#define MEMBERS 20

static struct oxp_member members[MEMBERS];

static int set_up_members(void **state)
{
	(void)state;
	open_empty_node();
	make_members(members, MEMBERS, 0, 0);
	return 0;
}

/* Returns the outer destination; members are IPv4. */
static struct oxp_address sent_to(const struct frame *frame)
{
	struct oxp_address out = address("0.0.0.0");
	struct frame sent;

	assert_int_equal(run(program, frame, &sent), XDP_TX);
	assert_int_equal(sent.data[12] << 8 | sent.data[13], 0x0800);
	memcpy(out.bytes + 12, sent.data + 14 + 16, 4);
	return out;
}

/* Clients differ at both ends of their addresses. Returns how many different
 * members they get. */
static uint32_t compare_picks(const struct oxp_key *key, const char *first)
{
	struct oxp_address client = address(first), picked, sent;
	bool seen[256] = {}, v6 = !is_v4(client.bytes);
	char text[INET6_ADDRSTRLEN];
	uint32_t different = 0;
	struct frame frame;

	for (int i = 0; i < CLIENTS; i++) {
		uint16_t port = 1024 + 7 * i;
		const struct flow flow = {v6 ? CLIENT : text, VIP, port,
					  key->port, IPPROTO_TCP};

		client.bytes[13] = i;
		client.bytes[15] = 1 + i % 5;
		client.bytes[7] = v6 ? i % 3 : 0;
		assert_ok(oxp_test_pick(node, key, &client, port, &picked,
					error));
		assert_non_null(inet_ntop(v6 ? AF_INET6 : AF_INET,
					  client.bytes + (v6 ? 0 : 12), text,
					  sizeof(text)));
		make_frame(&frame, &flow, 0, NULL);
		if (v6)
			to_v6(&frame, text, VIP_V6);
		sent = sent_to(&frame);
		assert_memory_equal(&sent, &picked, sizeof(sent));
		different += !seen[picked.bytes[15]];
		seen[picked.bytes[15]] = true;
	}
	return different;
}

#define PICK(name) TEST_WITH(name, set_up_members, tear_down)

PICK(test_pick_names_the_member_that_packets_go_to)
{
	struct oxp_key v4 = tcp_key(VIP, 80), v6 = tcp_key(VIP_V6, 80);

	set_service(node, &v4, members, MEMBERS);
	set_service(node, &v6, members, MEMBERS);
	assert_int_equal(compare_picks(&v4, "198.18.0.1"), MEMBERS);
	assert_int_equal(compare_picks(&v6, "2001:db8:5::1"), MEMBERS);
}

PICK(test_pick_by_source_ignores_ports)
{
	struct oxp_service_settings settings = {.slots = TEST_SLOTS,
						.flags = OXP_SERVICE_SOURCE};
	struct oxp_key v4 = tcp_key(VIP, 80), v6 = tcp_key(VIP_V6, 80);
	struct oxp_address client = address(CLIENT), one, other;

	set_service_as(node, &v4, &settings, members, MEMBERS);
	set_service_as(node, &v6, &settings, members, MEMBERS);
	assert_int_equal(compare_picks(&v4, "198.18.0.1"), MEMBERS);
	assert_int_equal(compare_picks(&v6, "2001:db8:5::1"), MEMBERS);
	assert_ok(oxp_test_pick(node, &v4, &client, 1, &one, error));
	assert_ok(oxp_test_pick(node, &v4, &client, 2, &other, error));
	assert_memory_equal(&one, &other, sizeof(one));
	/* lengths within a byte, so that part of it counts */
	settings.source_length_v4 = 13;
	settings.source_length_v6 = 63;
	set_service_as(node, &v4, &settings, members, MEMBERS);
	set_service_as(node, &v6, &settings, members, MEMBERS);
	assert_in_range(compare_picks(&v4, "198.18.0.1"), 2, MEMBERS);
	assert_int_equal(compare_picks(&v6, "2001:db8:5::1"),
			 2); /* 0 and 1, 2 */
}

PICK(test_pick_refuses_what_has_no_member)
{
	struct oxp_key v4 = tcp_key(VIP, 80), none = tcp_key(VIP, 81);
	struct oxp_address v6_client = address("2001:db8::9");
	struct oxp_address client = address(CLIENT), out;

	set_service(node, &v4, members, 0);
	assert_int_equal(oxp_test_pick(node, &v4, &client, 1, &out, error),
			 -ENETUNREACH);
	assert_int_equal(oxp_test_pick(node, &none, &client, 1, &out, error),
			 -ENOENT);
	assert_int_equal(oxp_test_pick(node, &v4, &v6_client, 1, &out, error),
			 -EAFNOSUPPORT);
}

PICK(test_quic_server_ids_are_crc32c_without_collisions)
{
	struct oxp_service_settings settings = {.slots = TEST_SLOTS,
						.flags = OXP_SERVICE_QUIC};
	/* The generator itself, 33 bits with the highest power first: adding it
	 * anywhere leaves the remainder unchanged. */
	uint64_t generator = 1 | 0x82f63b78ULL << 1;
	struct oxp_key key = udp_key(VIP, 443);
	uint8_t named[18] = {[16] = 8080 >> 8, [17] = 8080 & 255};
	struct oxp_member colliding[2] = {members[0], members[0]};
	struct oxp_service service;

	/* check value from the CRC catalogue */
	assert_int_equal(crc32c((const uint8_t *)"123456789", 9), 0xe3069283);
	for (int i = 0; i < MEMBERS; i++)
		assert_int_equal(quic_server_id(&members[i].address, 0),
				 crc32c(members[i].address.bytes, 16));
	memcpy(named, members[0].address.bytes, 16);
	assert_int_equal(quic_server_id(&members[0].address, 8080),
			 crc32c(named, sizeof(named)));
	colliding[0].address = colliding[1].address = address("2001:db8::1");
	for (int i = 0; i < 5; i++)
		colliding[1].address.bytes[8 + i] ^= generator >> 8 * i;
	assert_int_equal(quic_server_id(&colliding[0].address, 0),
			 quic_server_id(&colliding[1].address, 0));
	assert_int_equal(oxp_service_set(node, &key, &settings, colliding, 2,
					 NULL, error),
			 -EEXIST);
	assert_non_null(strstr(error, "2001:db8::1 "));
	assert_non_null(strstr(error, "2001:db8::f"));
	assert_int_equal(oxp_service_get(node, &key, &service, error), -ENOENT);
	/* one of them can exist, and refusing the other changes nothing */
	set_service_as(node, &key, &settings, colliding, 1);
	assert_int_equal(oxp_service_set(node, &key, &settings, colliding, 2,
					 NULL, error),
			 -EEXIST);
	assert_ok(oxp_service_get(node, &key, &service, error));
	assert_int_equal(service.members, 1);
	assert_ok(oxp_test_verify(node, error));
}

RUN_TESTS(enter_namespace, NULL)
