/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
/*
 * The library's whole interface. The Python binding parses this very text
 * (the library carries it as the string oxp_api_header), so it stays in the
 * plain subset of C that cffi reads: integer #defines, enums, structs and
 * function declarations.
 *
 * Conventions:
 *  - Addresses are 16 bytes in network order, IPv4 as ::ffff:a.b.c.d.
 *    Ports are numbers in host order.
 *  - Functions return 0 (or a count, where said) or a negative errno. `error`
 *    may be NULL; otherwise it points to OXP_ERROR_LENGTH bytes and holds one
 *    line of text after a failure.
 *  - Functions that fill an array return how many elements exist, which may
 *    be more than `capacity`; never more than `capacity` are written.
 *  - A node may be used by several threads, and the pinned state by several
 *    processes at once. A node is not to be used on both sides of a fork().
 */
#ifndef OCTAVIA_XDP_H
#define OCTAVIA_XDP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface; grows when something here changes meaning. */
#define OXP_API_VERSION 1

#define OXP_ERROR_LENGTH 512
#define OXP_SLOTS_DEFAULT 13313 /* prime */
#define OXP_SLOTS_LIMIT 1048573 /* greatest table that can be asked for */
#define OXP_MEMBERS_MAX 256     /* per service */

/* What happened to a packet. Only those from OXP_DROP_FRAGMENT on are counted
 * here: forwarded packets are counted by service and member, and a packet
 * that is not ours must cost nothing. */
enum oxp_outcome {
	OXP_PASS = 0,          /* not ours, left untouched */
	OXP_FORWARDED = 1,     /* encapsulated and sent to the gateway */
	OXP_DROP_FRAGMENT = 2, /* fragment to a VIP */
	OXP_DROP_MALFORMED =
		3, /* to a VIP, headers cut short or inconsistent */
	OXP_DROP_NO_MEMBER = 4,   /* nobody is up with a weight */
	OXP_DROP_NO_NEXT_HOP = 5, /* gateway or outer source not known yet */
	OXP_DROP_TOO_BIG = 6,     /* with the outer header beyond the MTU */
	OXP_DROP_NO_ROOM = 7,     /* no headroom for the outer header */
	OXP_DROP_INTERNAL = 8,    /* state that the library never writes */
	OXP_OUTCOMES = 9
};

struct oxp_node; /* an opened datapath */

struct oxp_address {
	uint8_t bytes[16];
};

struct oxp_key {
	struct oxp_address vip;
	uint16_t port;
	uint8_t protocol; /* 6 TCP, 17 UDP */
	uint8_t zero;
};

struct oxp_options {
	const char *pin_directory; /* on a bpffs; created if missing */
	const char *lock_file;     /* one per node; created if missing */
	/* Sizes matter only when the state is created; 0 means the default. */
	uint32_t services_max; /* default 1024 */
	uint32_t members_max;  /* of all services; default 16 * services_max */
	uint32_t slots_max;    /* default OXP_SLOTS_DEFAULT */
	uint8_t create;        /* load and pin if nothing is there */
};

struct oxp_info {
	uint32_t layout; /* version of the pinned maps */
	uint32_t services_max;
	uint32_t members_max;
	uint32_t slots_max;
	uint32_t services;  /* in use */
	uint32_t members;   /* in use */
	uint64_t map_bytes; /* size of the pinned tables */
};

/* Opens the pinned state, or creates it. -ENOENT: nothing is there and
 * `create` is 0. -EPROTO: another layout version is pinned. */
int oxp_open(const struct oxp_options *options, struct oxp_node **node,
	     char *error);
/* Forgets the node; the kernel goes on forwarding. */
void oxp_close(struct oxp_node *node);
int oxp_info(struct oxp_node *node, struct oxp_info *info, char *error);
/* Detaches everything and removes the pins: forwarding ends. */
int oxp_destroy(struct oxp_node *node, char *error);

/* Attaches the forwarding program to an interface of the caller's network
 * namespace, in the driver (native mode); it stays after the process ends.
 * If it is attached already, the program is replaced by this library's one
 * without losing a packet. */
int oxp_attach(struct oxp_node *node, uint32_t ifindex, char *error);
/* -ENOENT if it was not attached. */
int oxp_detach(struct oxp_node *node, uint32_t ifindex, char *error);

/* Where encapsulated packets go. A gateway_mac of zeroes means that the next
 * hop is not known: packets to VIPs are dropped and counted. `mtu` is the
 * greatest IP packet that the uplink carries. */
int oxp_set_uplink(struct oxp_node *node, const uint8_t *own_mac,
		   const uint8_t *gateway_mac,
		   const struct oxp_address *outer_source, uint32_t mtu,
		   char *error);

struct oxp_member {
	struct oxp_address address; /* unique within a service */
	uint64_t
		check; /* id of the health check; 0: not monitored, always up */
	uint16_t weight; /* 0 takes no traffic */
	uint8_t admin_up;
};

/* Makes the service exist with exactly these members. `slots` is prime and at
 * most slots_max; 0 means OXP_SLOTS_DEFAULT. What is known about the health
 * of members that stay is kept. *changed tells whether anything was written;
 * may be NULL. */
int oxp_service_set(struct oxp_node *node, const struct oxp_key *key,
		    uint32_t slots, const struct oxp_member *members,
		    uint32_t count, uint8_t *changed, char *error);
/* Returns how many of the keys existed and are gone now. */
int oxp_service_delete(struct oxp_node *node, const struct oxp_key *keys,
		       uint32_t count, char *error);

/* Totals over all CPUs since the service or member was created. Bytes are
 * those of the IP packets that clients sent, without our outer header. */
struct oxp_counters {
	uint64_t packets;
	uint64_t bytes;
	uint64_t flows; /* of services: TCP SYNs; of members: 0 */
};

struct oxp_service {
	struct oxp_key key;
	uint32_t index;
	uint32_t slots;
	uint32_t members;
	uint32_t enabled;    /* members that take traffic */
	uint64_t generation; /* grows with each switch */
	struct oxp_counters counters;
};

struct oxp_member_state {
	struct oxp_address address;
	uint64_t check;
	uint16_t weight;
	uint8_t admin_up;
	uint8_t healthy; /* takes traffic, if also admin_up and weight > 0 */
	uint8_t known;   /* the health check has told its result */
	struct oxp_counters counters;
};

/* All services, in the order of their keys. Returns how many there are. */
int oxp_services(struct oxp_node *node, struct oxp_service *out,
		 uint32_t capacity, char *error);
/* One service. -ENOENT if it does not exist. */
int oxp_service(struct oxp_node *node, const struct oxp_key *key,
		struct oxp_service *out, char *error);
/* Members in the order of their addresses. Returns how many there are. */
int oxp_service_members(struct oxp_node *node, const struct oxp_key *key,
			struct oxp_member_state *out, uint32_t capacity,
			char *error);
/* The lookup table: each slot's index into oxp_service_members(), or
 * OXP_NO_MEMBER in every slot. Returns the number of slots. */
#define OXP_NO_MEMBER 65535
int oxp_service_table(struct oxp_node *node, const struct oxp_key *key,
		      uint16_t *out, uint32_t capacity, char *error);
/* Which member a new packet of this flow goes to. -ENETUNREACH: none. */
int oxp_service_pick(struct oxp_node *node, const struct oxp_key *key,
		     const struct oxp_address *client, uint16_t client_port,
		     struct oxp_address *member, char *error);

struct oxp_result {
	uint64_t check;
	uint8_t up;
};

/* Takes results of health checks, in order, into every service whose members
 * carry these checks; each touched table is rebuilt once. Unknown checks are
 * ignored. Returns the number of tables that switched. */
int oxp_health_apply(struct oxp_node *node, const struct oxp_result *results,
		     uint32_t count, char *error);

/* counts[i] is the number of packets with outcome i; `capacity` elements are
 * written at most. Returns OXP_OUTCOMES. */
int oxp_outcomes(struct oxp_node *node, uint64_t *counts, uint32_t capacity,
		 char *error);

/* Computes every table again and compares it with the kernel's. Returns the
 * number of services that differ; `error` then describes the first. */
int oxp_verify(struct oxp_node *node, char *error);

/* A Maglev table as a pure function of the set of (address, weight): out[i]
 * is an index into `addresses`, or OXP_NO_MEMBER in every slot if nobody has
 * a weight. Needs neither node nor privileges. */
int oxp_maglev_build(const struct oxp_address *addresses,
		     const uint16_t *weights, uint32_t count, uint32_t slots,
		     uint16_t *out);
uint8_t oxp_is_prime(uint32_t number);

#ifdef __cplusplus
}
#endif

#endif
