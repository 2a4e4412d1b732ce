// SPDX-License-Identifier: Apache-2.0
/* The member's programs: what they leave to the host and what they drop. */
#include "member_tunnel_fixture.h"

/* At any length: left, or dropped and counted, but never changed. */
TEST(test_cut_tunnels_are_left_or_dropped_unchanged)
{
	struct packet packet;
	struct outer outer;
	struct frame in;

	begin(state, NULL);
	FOR_EACH_TUNNEL(n, packet, outer) {
		size_t link, outer_header, whole, known;

		packet.length = 5;
		make_tunnel(&in, &packet, &outer);
		whole = in.length;
		link = 14 + 4 * outer.tags;
		outer_header = is_ipv4(outer.from) ? 20 : 40;
		/* needed to recognize one of our tunnels */
		known = link + outer_header;
		if (outer.kind == GRE)
			known += 4;
		else if (outer.kind == GUE)
			known += 9;
		else if (outer.kind == GENEVE)
			known += 16;
		/* The kernel makes no skb shorter than an IP header. */
		in.length = bench.program == XDP ? 14 : link + outer_header;
		for (; in.length < whole; in.length++) {
			if (in.length < known)
				expect_passed(&bench, &in);
			else
				expect_dropped(&bench, &in,
					       MEMBER_DROP_MALFORMED);
		}
	}
}

TEST(test_wrong_lengths_and_checksums_are_malformed)
{
	struct packet packet;
	struct outer outer;
	struct frame in, good;

	begin(state, NULL);
	FOR_EACH_TUNNEL(n, packet, outer) {
		size_t ip, inner;

		packet.length = 20;
		make_tunnel(&good, &packet, &outer);
		ip = 14 + 4 * outer.tags;
		inner = good.length -
			(is_ipv4(packet.from) ? 60 : 80); /* TCP, 20 bytes */

		in = good; /* inner length is one less than the tunnel's */
		in.data[inner + (is_ipv4(packet.from) ? 3 : 5)]--;
		expect_dropped(&bench, &in, MEMBER_DROP_MALFORMED);
		in = good; /* one more */
		in.data[inner + (is_ipv4(packet.from) ? 3 : 5)]++;
		expect_dropped(&bench, &in, MEMBER_DROP_MALFORMED);
		if (is_ipv4(packet.from)) {
			in = good;
			in.data[inner] = 0x44;
			expect_dropped(&bench, &in, MEMBER_DROP_MALFORMED);
		}
		if (is_ipv4(outer.from)) {
			in = good; /* checksum of the outer header */
			in.data[ip + 8]--;
			expect_dropped(&bench, &in, MEMBER_DROP_MALFORMED);
		}
		if (has_udp(outer.kind)) {
			in = good; /* UDP length */
			in.data[inner - (outer.kind == GUE ? 3 : 11)]++;
			expect_dropped(&bench, &in, MEMBER_DROP_MALFORMED);
		}
		if (outer.kind != GUE) {
			in = good; /* not the version that was announced */
			in.data[inner] ^= 0x20;
			expect_dropped(&bench, &in, MEMBER_DROP_MALFORMED);
		}
	}
}

TEST(test_other_packets_are_left)
{
	static const struct {
		size_t at;
		uint8_t value;
	} geneve[] = {
		{6, 1},     /* checksum */
		{8, 0x40},  /* wrong version */
		{8, 0x01},  /* option */
		{9, 0x80},  /* control packet */
		{9, 0x40},  /* critical options */
		{10, 0x65}, /* neither IPv4 nor IPv6 */
	};
	struct outer outer = usual;
	struct frame in;

	begin(state, NULL);
	make_plain(&in, &web, 0);
	expect_passed(&bench, &in);
	make_plain(&in, &web6, 0);
	expect_passed(&bench, &in);

	make_tunnel(&in, &web, &usual); /* such as ARP */
	in.data[12] = 8;
	in.data[13] = 6;
	expect_passed(&bench, &in);
	make_tunnel(&in, &web, &usual); /* options */
	in.data[14] = 0x46;
	expect_passed(&bench, &in);
	make_tunnel(&in, &web, &usual); /* EGP */
	in.data[14 + 9] = 8;
	expect_passed(&bench, &in);

	outer.kind = GRE;
	make_tunnel(&in, &web, &outer); /* announces a key */
	in.data[34] = 0x20;
	expect_passed(&bench, &in);
	make_tunnel(&in, &web, &outer); /* Ethernet in GRE */
	in.data[36] = 0x65;
	in.data[37] = 0x58;
	expect_passed(&bench, &in);

	outer.kind = GUE;
	make_tunnel(&in, &web, &outer); /* wrong port */
	in.data[37] = 0;
	expect_passed(&bench, &in);
	make_tunnel(&in, &web, &outer); /* checksum */
	in.data[40] = 1;
	expect_passed(&bench, &in);
	make_tunnel(&in, &web, &outer); /* GUE header of its own */
	in.data[42] = 0x00;
	expect_passed(&bench, &in);

	outer.kind = GENEVE;
	for (size_t i = 0; i < sizeof(geneve) / sizeof(*geneve); i++) {
		make_tunnel(&in, &web, &outer);
		in.data[34 + geneve[i].at] = geneve[i].value;
		expect_passed(&bench, &in);
	}
	assert_int_equal(all_counters(&bench), 0);
}

TEST(test_tunnels_to_others_or_to_no_vip_are_left)
{
	struct packet packet;
	struct outer outer;
	struct frame in;
	uint64_t others = 0;

	begin(state, NULL);
	FOR_EACH_TUNNEL(n, packet, outer) {
		/* to another member, through this host */
		outer.to = is_ipv4(outer.to) ? "10.1.0.2" : "2001:db8:1::2";
		make_tunnel(&in, &packet, &outer);
		expect_passed(&bench, &in);
		/* a VIP is not the end of a tunnel */
		outer.to = is_ipv4(outer.to) ? VIP : VIP6;
		make_tunnel(&in, &packet, &outer);
		expect_passed(&bench, &in);
		assert_int_equal(all_counters(&bench), others);

		combine(n, &packet, &outer);
		packet.to = is_ipv4(packet.to) ? "192.0.2.2" : "2001:db8:f::2";
		make_tunnel(&in, &packet, &outer);
		expect_passed(&bench, &in);
		others++;
		packet.to = is_ipv4(packet.to) ? OWN : OWN6;
		make_tunnel(&in, &packet, &outer);
		expect_passed(&bench, &in);
		others++;
		assert_int_equal(counter(&bench, MEMBER_PASSED_NOT_VIP),
				 others);
	}
}

TEST(test_outer_fragments_are_left_and_counted)
{
	struct outer outer = usual;
	struct frame in;

	begin(state, NULL);
	for (int i = 0; i < 2; i++) {
		outer.kind = i ? GRE : IPIP;
		make_tunnel(&in, &web, &outer);
		in.data[14 + 6] = 0x20;
		expect_passed(&bench, &in);
		in.data[14 + 6] = 0;
		in.data[14 + 7] = 3;
		expect_passed(&bench, &in);
	}
	assert_int_equal(counter(&bench, MEMBER_PASSED_FRAGMENT), 4);
	outer.to = "10.1.0.2";
	make_tunnel(&in, &web, &outer);
	in.data[14 + 6] = 0x20;
	expect_passed(&bench, &in);
	assert_int_equal(all_counters(&bench), 4);
}

TEST(test_tunnels_from_outside_the_networks_are_dropped)
{
	struct packet packet;
	struct outer outer;
	struct frame in;

	begin(state, NULL);
	FOR_EACH_TUNNEL(n, packet, outer) {
		outer.from = is_ipv4(outer.from) ? FOREIGN : FOREIGN6;
		make_tunnel(&in, &packet, &outer);
		expect_dropped(&bench, &in, MEMBER_DROP_SOURCE);
		/* not certainly ours */
		in.length = 14 + 4 * outer.tags + 50;
		if (is_ipv4(outer.from))
			in.length -= 20;
		expect_passed(&bench, &in);
	}
}

RUN_TESTS(NULL, NULL)
