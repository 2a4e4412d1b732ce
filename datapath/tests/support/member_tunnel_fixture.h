/* SPDX-License-Identifier: Apache-2.0 */
/* A member, and tunnels to it of every kind. Each test runs with XDP, tc, and
 * tc as on kernels before 6.3. */
#ifndef OXP_MEMBER_TUNNEL_FIXTURE_H
#define OXP_MEMBER_TUNNEL_FIXTURE_H

#include <netinet/in.h>

#include "member_harness.h"

static struct bench bench;

static const struct packet web = {.from = CLIENT,
				  .to = VIP,
				  .protocol = IPPROTO_TCP,
				  .from_port = 40000,
				  .to_port = 80};
static const struct packet web6 = {.from = CLIENT6,
				   .to = VIP6,
				   .protocol = IPPROTO_TCP,
				   .from_port = 40000,
				   .to_port = 80};
static const struct outer usual = {.from = NODE, .to = OWN};

static void begin(void **state, const struct member_config *config)
{
	set_up(&bench, *(enum program *)*state, config);
}

static int end(void **state)
{
	(void)state;
	tear_down(&bench);
	return 0;
}

/* The nth combination of encapsulation, families and VLAN tags. */
#define COMBINATIONS (KINDS * 2 * 2 * 3)
static inline bool combine(unsigned int n, struct packet *packet,
			   struct outer *outer)
{
	*packet = n & 1 ? web6 : web;
	*outer = usual;
	if (n & 2) {
		outer->from = NODE6;
		outer->to = OWN6;
	}
	outer->kind = n / 4 % KINDS;
	outer->tags = n / 4 / KINDS;
	/* tc sees only tags that the kernel could not remove: two */
	return bench.program == XDP || !outer->tags;
}

#define FOR_EACH_TUNNEL(n, packet, outer)                                      \
	for (unsigned int n = 0; n < COMBINATIONS; n++)                        \
		if (combine(n, &(packet), &(outer)))

#define TEST(name)                                                             \
	DEFINE_TEST(name, WITH_XDP(name), WITH_TC(name), WITH_OLD_TC(name))

#endif
