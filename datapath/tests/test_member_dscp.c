// SPDX-License-Identifier: Apache-2.0
/* The member's programs when the DSCP selects the VIP (L3DSR). */
#include "member_rewrite_fixture.h"

static const struct member_config all = {.has_ports = 1, .has_dscp = 1};

static void check_dscp(const struct packet *seen, const char *own)
{
	struct packet sent = *seen;
	struct frame in, expected;

	sent.to = own;
	for (unsigned int tags = 0; tags < 3; tags++) {
		if (tags && bench.program != XDP)
			continue;
		make_plain(&in, &sent, tags);
		make_plain(&expected, seen, tags);
		expect_taken(&bench, &in, &expected);
	}
}

TEST(test_dscp_restores_the_vip)
{
	static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP,
					    IPPROTO_SCTP};
	const struct member_config config = {.has_dscp = 1};
	uint64_t taken = 0, each;
	struct packet packet;

	begin(state, &config);
	each = bench.program == XDP ? 3 : 1;
	add_dscp(&bench, 7, VIP);
	add_dscp(&bench, 9, VIP6);
	for (int v6 = 0; v6 < 2; v6++) {
		for (int i = 0; i < 3; i++) {
			packet = request(v6, protocols[i], LISTENER);
			packet.tos = (v6 ? 9 : 7) << 2 | (i & 3);
			check_dscp(&packet, v6 ? OWN6 : OWN);
			packet.extensions = v6;
			check_dscp(&packet, v6 ? OWN6 : OWN);
			taken += 2 * each;
		}
		packet = request(v6, IPPROTO_UDP, LISTENER);
		packet.tos = (v6 ? 9 : 7) << 2;
		packet.no_checksum = true;
		check_dscp(&packet, v6 ? OWN6 : OWN);
		packet.no_checksum = false;
		packet.length = 64;
		packet.fragment = 9;
		check_dscp(&packet, v6 ? OWN6 : OWN);
		taken += 2 * each;
	}
	assert_int_equal(counter(&bench, MEMBER_TAKEN_DSCP), taken);
	assert_int_equal(all_counters(&bench), taken);
}

TEST(test_dscp_takes_icmp_errors_and_no_pings)
{
	uint8_t payload[128], other[128];
	struct packet error, seen, quoted;
	struct frame in, expected;

	begin(state, &all);
	add_dscp(&bench, 7, VIP);
	add_dscp(&bench, 7, VIP6);
	for (int v6 = 0; v6 < 2; v6++) {
		quoted = answer(v6, IPPROTO_TCP, LISTENER);
		make_error(&error, payload, &quoted, v6 ? 48 : 28);
		error.tos = 7 << 2;
		error.to = v6 ? OWN6 : OWN;
		quoted = answer(v6, IPPROTO_TCP, LOCAL);
		make_error(&seen, other, &quoted, v6 ? 48 : 28);
		seen.tos = 7 << 2;
		make_plain(&in, &error, 0);
		make_plain(&expected, &seen, 0);
		expect_taken(&bench, &in, &expected);
		/* pings are for the member itself */
		error.type = v6 ? 128 : 8;
		make_plain(&in, &error, 0);
		expect_passed(&bench, &in);
	}
	assert_int_equal(counter(&bench, MEMBER_TAKEN_DSCP), 2);
	assert_int_equal(counter(&bench, MEMBER_ERROR_IN), 2);
}

TEST(test_dscp_and_ports_are_rewritten_together)
{
	struct packet sent, seen;
	struct frame in, expected;

	begin(state, &all);
	add_dscp(&bench, 7, VIP);
	sent = request(false, IPPROTO_TCP, LISTENER);
	sent.to = OWN;
	sent.tos = 7 << 2;
	seen = request(false, IPPROTO_TCP, LOCAL);
	seen.tos = 7 << 2;
	make_plain(&in, &sent, 0);
	make_plain(&expected, &seen, 0);
	expect_taken(&bench, &in, &expected);
	/* tunnels still work */
	sent = request(false, IPPROTO_TCP, LISTENER);
	seen = request(false, IPPROTO_TCP, LOCAL);
	check_in(&sent, &seen);
}

TEST(test_other_dscps_and_addresses_are_left)
{
	struct packet packet;
	struct frame in;

	begin(state, &all);
	add_dscp(&bench, 7, VIP);
	packet = request(false, IPPROTO_TCP, LISTENER);
	packet.to = OWN;
	for (unsigned int dscp = 0; dscp < 64; dscp++) {
		if (dscp == 7)
			continue;
		packet.tos = dscp << 2;
		make_plain(&in, &packet, 0);
		expect_passed(&bench, &in);
	}
	packet.tos = 7 << 2;
	packet.to = "10.1.0.2";
	make_plain(&in, &packet, 0);
	expect_passed(&bench, &in);
	packet.to = VIP;
	make_plain(&in, &packet, 0);
	expect_passed(&bench, &in);
	/* GRE with this DSCP, to the member */
	packet.to = OWN;
	make_plain(&in, &packet, 0);
	in.data[14 + 9] = IPPROTO_GRE;
	in.data[14 + 10] = in.data[14 + 11] = 0;
	expect_passed(&bench, &in);
	packet = request(true, IPPROTO_TCP, LISTENER);
	packet.to = OWN6;
	packet.tos = 7 << 2;
	make_plain(&in, &packet, 0);
	expect_passed(&bench, &in);
	/* too short to have a checksum */
	packet = request(false, IPPROTO_TCP, LISTENER);
	packet.to = OWN;
	packet.tos = 7 << 2;
	packet.length = 0;
	make_plain(&in, &packet, 0);
	in.length -= 4;
	expect_passed(&bench, &in);
	assert_int_equal(all_counters(&bench), 0);
}

RUN_TESTS(NULL, NULL)
