/* SPDX-License-Identifier: Apache-2.0 */
/* A member whose servers use other ports than the listeners, and packets
 * between a client and the VIP. */
#ifndef OXP_MEMBER_REWRITE_FIXTURE_H
#define OXP_MEMBER_REWRITE_FIXTURE_H

#include <netinet/in.h>

#include "member_harness.h"

#define LISTENER 80
#define LOCAL 8080

static struct bench bench;
static const struct outer usual = {.from = NODE, .to = OWN};

static void begin(void **state, const struct member_config *config)
{
	set_up(&bench, *(enum program *)*state, config);
	for (int i = 0; i < 2; i++) {
		add_port(&bench, i ? VIP6 : VIP, IPPROTO_TCP, LISTENER, LOCAL);
		add_port(&bench, i ? VIP6 : VIP, IPPROTO_UDP, LISTENER,
			 LOCAL + 1);
		/* a listener's port that is the port of another server */
		add_port(&bench, i ? VIP6 : VIP, IPPROTO_TCP, LOCAL, 9090);
	}
}

static int end(void **state)
{
	(void)state;
	tear_down(&bench);
	return 0;
}

static inline struct packet request(bool v6, uint8_t protocol, uint16_t port)
{
	return (struct packet){
		.from = v6 ? CLIENT6 : CLIENT,
		.to = v6 ? VIP6 : VIP,
		.protocol = protocol,
		.from_port = 40000,
		.to_port = port,
		.length = 33,
	};
}

static inline struct packet answer(bool v6, uint8_t protocol, uint16_t port)
{
	return (struct packet){
		.from = v6 ? VIP6 : VIP,
		.to = v6 ? CLIENT6 : CLIENT,
		.protocol = protocol,
		.from_port = port,
		.to_port = 40000,
		.length = 33,
	};
}

static inline void check_in(const struct packet *sent,
			    const struct packet *seen)
{
	struct outer outer = usual;

	for (outer.kind = 0; outer.kind < KINDS; outer.kind++)
		expect_decapsulated(&bench, sent, &outer, seen);
}

#define TEST(name) DEFINE_TEST(name, WITH_XDP(name), WITH_TC(name))

#endif
