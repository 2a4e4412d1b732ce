/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that name an alternative, and what a member does with them.
 * Connections are real, over loopback. */
#ifndef OXP_MEMBER_SECOND_CHANCE_FIXTURE_H
#define OXP_MEMBER_SECOND_CHANCE_FIXTURE_H

#include "member_connections.h"
#include "member_tunnel_fixture.h"

#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16

/* The encapsulations that carry alternatives, for both inner families. */
#define NAMED 10
static void name(unsigned int n, struct packet *packet, struct outer *outer)
{
	static const struct {
		enum kind kind;
		bool v6;
	} kinds[] = {{GUE, false},
		     {GENEVE, false},
		     {GUE, true},
		     {GENEVE, true},
		     {IPIP, true}};

	*packet = n & 1 ? web6 : web;
	packet->from_port = OTHER;
	packet->length = 100 + n;
	*outer = usual;
	outer->kind = kinds[n / 2].kind;
	outer->alternative = MEMBER;
	if (kinds[n / 2].v6) {
		outer->from = NODE6;
		outer->to = OWN6;
		outer->alternative = MEMBER6;
	}
	if (outer->kind == GENEVE) {
		outer->vni = 0xabcdef;
		outer->alternative_vni = 0x123456;
	}
}

static void expect_second_chance(const struct packet *packet,
				 const struct outer *outer)
{
	uint64_t before = counter(&bench, MEMBER_HANDED_ON);
	struct outer next = *outer;
	struct frame in, expected;

	make_tunnel(&in, packet, outer);
	next.from = outer->to;
	next.to = outer->alternative;
	next.vni = outer->alternative_vni;
	next.alternative = NULL;
	next.ttl = 64;
	make_tunnel(&expected, packet, &next);
	expect_handed_on(&bench, &in, &expected);
	assert_int_equal(counter(&bench, MEMBER_HANDED_ON), before + 1);
}

static void expect_taken_here(const struct packet *packet,
			      const struct outer *outer,
			      const struct packet *seen)
{
	struct frame in, expected;

	make_tunnel(&in, packet, outer);
	make_plain(&expected, seen, outer->tags);
	expect_taken_by_tc(&bench, &in, &expected);
}

#endif
