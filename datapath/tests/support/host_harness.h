/* SPDX-License-Identifier: Apache-2.0 */
/* A hypervisor's state in a private BPF file system, and frames for it. */
#ifndef OXP_HOST_HARNESS_H
#define OXP_HOST_HARNESS_H

#include "host.h"
#include "octavia_xdp_host.h"
#include "state.h"
#include "tests.h"

#define FOLDER "/mnt/bpf/host"
#define LO 1
#define NODE "10.0.0.17"
#define LOCAL "10.1.0.1"
#define VIP "192.0.2.1"
#define FIXED "10.7.0.5"
#define CLIENT "198.51.100.7"
#define LISTENER 80
#define MEMBER_PORT 8080
#define CLIENT_PORT 1025
#define KEY 5

#define FIN 0x01
#define SYN 0x02
#define ACK 0x10

extern char error[OXH_ERROR_LENGTH];

/* Mounts and a loopback device of its own. A cmocka group setup. */
int enter_host_namespace(void **state);

/* Whether this kernel has tcx (Linux 6.6), without which there is no state. */
bool has_tcx(void);
/* A test that skips itself. */
void skipped(void **state);

/* The state of the test. */
extern struct oxh_host *host;

/* Begin with a new one that has only settings and networks. */
void fresh_host(const struct oxh_sizes *sizes);
/* The same with a port that is open to everybody, and an entry with KEY. */
void fresh_listener(const struct oxh_sizes *sizes, uint32_t flows_max);
/* Remove it. A cmocka tear-down. */
int end_host(void **state);

/* A test that is skipped without tcx. */
#define HOST_TEST(name)                                                        \
	DEFINE_TEST(name,                                                      \
		    {#name, has_tcx() ? name : skipped, NULL, end_host, NULL})

struct oxh_address address(const char *text);
struct oxh_network network(const char *text, uint8_t length);

/* All bytes of the port's id are the number. */
struct oxh_port port_of(uint8_t number);
/* Open the port to everybody. */
void set_open_port(uint8_t number, uint32_t flows_max);
struct oxh_entry entry_of(uint32_t key, uint8_t port);
void set_entry(const struct oxh_entry *entry);

struct segment {
	const char *client, *vip, *fixed;
	uint16_t client_port;
	uint8_t protocol; /* 0: TCP */
	uint8_t flags;
	uint8_t payload[2];
};

/* From an LB node, with a correct checksum, in a tunnel with the key. */
size_t make_in(uint8_t *out, uint32_t key, const struct segment *segment);
/* From the VM. */
size_t make_out(uint8_t *out, const struct segment *segment);
/* To the VM, not by an LB node. */
size_t make_direct(uint8_t *out, const struct segment *segment);

/* Send it through the program. `out`, unless NULL, has OXH_FRAME_MAX bytes.
 * Returns the length of the result, 0 if the packet was dropped or left
 * alone. */
size_t send_in(uint32_t key, const struct segment *segment, uint8_t *out);
size_t send_out(const struct segment *segment, uint8_t *out);
/* Confirmed flows: the place of the first one from `place` on, or -1. */
int32_t next_flow(int32_t place);
#define FOR_EACH_FLOW(place)                                                   \
	for (int32_t place = next_flow(0); place >= 0;                         \
	     place = next_flow(place + 1))
__u64 *state_at(int32_t place);
__u64 *tag_at(int32_t place);

/* Run the program. `out` has OXH_FRAME_MAX bytes. Returns the length of the
 * result, 0 if the packet was dropped or left alone. */
size_t run(uint32_t hook, const uint8_t *data, size_t length, uint8_t *out);
/* SYN of the client, answer of the member, ACK of the client; with KEY. */
void establish(const struct segment *segment);
void establish_with(uint32_t key, const struct segment *segment);
uint64_t outcome(uint32_t which);

/* 0xffff if the checksum is correct: of IPv4, or of its payload. */
uint16_t sum_of(const uint8_t *data, size_t length, uint32_t begin);
uint16_t transport_sum(const uint8_t *ip, size_t length);

#endif
