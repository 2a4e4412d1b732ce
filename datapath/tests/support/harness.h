/* SPDX-License-Identifier: Apache-2.0 */
/* A private BPF file system, packets, and running them through a program. */
#ifndef OXP_HARNESS_H
#define OXP_HARNESS_H

#include "rooms.h"
#include "test_interface.h"
#include "tests.h"

#define VIP "192.0.2.1"
#define CLIENT "198.51.100.7"
#define NODE "10.0.0.1"
#define VIP_V6 "2001:db8::1"
#define NODE_V6 "fd00::1"
#define TEST_SLOTS 1009

extern char error[OXP_ERROR_LENGTH];

/* Whether the library really waits for packets (the linker wraps synchronize).
 * Turn it off only where no packets are in progress. */
extern bool wait_for_packets;
/* Called while an update waits for packets, unless NULL. */
extern void (*when_waiting)(void);

/* Enter a mount namespace of its own, so that nothing remains however the test
 * ends. A cmocka group setup. */
int enter_namespace(void **state);
/* OCTAVIA_XDP_PACKETS=quick: leave out what only takes time. */
bool is_quick(void);

/* Memory that is available now. */
unsigned long available_kb(void);

/* Open the state in the private file system; create it if it does not exist. */
struct oxp_node *open_state(void);
/* Like open_state(), but starting empty, and with an uplink. */
struct oxp_node *fresh_state(void);
/* Open another state, which is created with these sizes, a source and an uplink
 * if it does not exist. */
struct oxp_node *open_sized(const char *name, struct oxp_options sizes);
/* Verify, remove and close it. */
void remove_state(struct oxp_node *node);
/* Returns a descriptor of the forwarding program over the node's maps. */
int forward_program(struct oxp_node *node);

struct oxp_address address(const char *text);
struct oxp_key tcp_key(const char *vip, uint16_t port);
struct oxp_key udp_key(const char *vip, uint16_t port);
struct flow {
	const char *source, *destination;
	uint16_t source_port, destination_port;
	uint8_t protocol;
};

/* Returns the key of the service that the flow's packets are for. */
struct oxp_key key_of(const struct flow *flow);
/* Addresses from 10.1.<group>.1 on, all up with weight 1. Check ids from
 * `check` on; 0: no checks. */
void make_members(struct oxp_member *out, uint32_t count, uint8_t group,
		  uint64_t check);
void set_service(struct oxp_node *node, const struct oxp_key *key,
		 const struct oxp_member *members, uint32_t count);
void set_service_as(struct oxp_node *node, const struct oxp_key *service,
		    const struct oxp_service_settings *settings,
		    const struct oxp_member *members, uint32_t count);
/* With the member 10.1.0.1. */
void set_with_one_member(struct oxp_node *node, struct oxp_key service,
			 struct oxp_service_settings settings);

#define FRAME_MAX 4096
struct frame {
	uint8_t data[FRAME_MAX];
	size_t length;
};

/* Fields of the IP header that tests vary; zeroes give the usual packet. */
struct variation {
	uint8_t options; /* 32-bit words */
	uint8_t tos;
	uint8_t tcp_flags;
	uint16_t id;
	uint16_t fragment;
	uint16_t padding; /* bytes of the frame after the packet */
};

void make_frame(struct frame *out, const struct flow *flow, size_t payload,
		const struct variation *variation);
/* Replace the frame's IPv4 packet by an IPv6 packet. */
void to_v6(struct frame *frame, const char *source, const char *destination);
uint16_t checksum(const void *data, size_t length);
/* Returns the XDP action. `out` may be NULL. */
int run(int program, const struct frame *in, struct frame *out);
/* `out` must be the frame encapsulated for `member`. */
void expect_encapsulated(const struct frame *in, const struct frame *out,
			 const char *member);

#endif
