/* SPDX-License-Identifier: Apache-2.0 */
/* A node whose flows are watched, many clients, and control over time. */
#ifndef OXP_WATCH_FIXTURE_H
#define OXP_WATCH_FIXTURE_H

#include <arpa/inet.h>

#include "fixture.h"
#include "node/uplinks.h"
#include "node/watched_uplinks.h"
#include "service/watch.h"
#include "state.h"

#define SYN 0x02
#define ACK 0x10
#define FIN 0x11
#define RST 0x04
#define SECOND 1000 /* ms */

static inline uint64_t live_choices(void)
{
	return choices_watched(
		&node->uplinks[node->config->active_uplinks & 1]);
}

/* Lets this time pass for the watch, at this rate of watched packets. */
static inline void tick(uint64_t ms, uint64_t packets_per_second)
{
	node->watched[WATCH_SETS].entry[0] += packets_per_second * ms / 1000;
	assert_ok(watch_on(node, ms, error));
}

static inline int set_up_watching(void **state)
{
	set_up(state);
	tick(SECOND, 0);
	return 0;
}

static inline void send_flow(const struct flow *flow, uint8_t flags)
{
	struct variation with = {.tcp_flags = flags};
	struct frame frame;

	make_frame(&frame, flow, 0, &with);
	assert_int_equal(run(program, &frame, NULL), XDP_TX);
}

/* Send as one of many clients. */
static inline void send_as(uint32_t client, const struct flow *to,
			   uint8_t flags)
{
	char source[INET_ADDRSTRLEN];
	struct flow flow = *to;

	snprintf(source, sizeof(source), "198.51.%u.%u", client / 200 % 250,
		 1 + client % 200);
	flow.source = source;
	flow.source_port = 1024 + client / 50000;
	send_flow(&flow, flags);
}

static inline void open_flows(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		send_as(i, &web, SYN);
		send_as(i, &web, ACK);
	}
}

static inline uint32_t alive(const struct flow *flow)
{
	struct oxp_key key = key_of(flow);
	struct oxp_service service;

	assert_ok(oxp_service_get(node, &key, &service, error));
	return service.active_flows;
}

/* Makes all entries this much older. */
static inline void let_pass(uint64_t seconds)
{
	for (uint32_t set = 0; set < WATCH_SETS; set++)
		for (int way = 0; way < WATCH_WAYS; way++) {
			__u64 *entry = &node->watched[set].entry[way];
			__u64 time = *entry >> WATCH_TIME_SHIFT;

			if (!*entry)
				continue;
			*entry ^= ((time ^ (time - seconds)) & FLOW_TIME_MASK)
				  << WATCH_TIME_SHIFT;
		}
}

static inline int share(void)
{
	return __builtin_popcountll(live_choices());
}

#define WATCHING(name) TEST_WITH(name, set_up_watching, tear_down)

#endif
