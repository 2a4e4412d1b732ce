/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data path of a hypervisor (bpf/host) and its state, which is pinned in a
 * folder of its own below a bpffs and goes on without any process.
 *
 * Addresses are 16 bytes in network byte order, IPv4 as ::ffff:a.b.c.d; ports,
 * keys and numbers are in host byte order, times in seconds. Every call is
 * idempotent: what is asked for is what is there afterwards. Functions return
 * 0 or what they say, or a negative errno with a text in `error`, which may be
 * NULL and otherwise has OXH_ERROR_LENGTH bytes. A handle is for one thread;
 * several handles and processes exclude each other by a lock of the folder.
 */
#ifndef OCTAVIA_XDP_HOST_H
#define OCTAVIA_XDP_HOST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OXH_API_VERSION 5
#define OXH_ERROR_LENGTH 512
#define OXH_RULES_MAX 128 /* of a port */
#define OXH_NETWORKS_MAX 1024
#define OXH_FRAME_MAX 4096
#define OXH_ALL_PORTS 0xffffffff

enum oxh_outcome {
#define OXP_HOST_OUTCOME(name, number, kind, text) OXH_##name = number,
#include "enumerations.h"
	OXH_OUTCOMES
};

enum oxh_hook {
	OXH_NIC,     /* ingress of the underlay's interface */
	OXH_TAP_IN,  /* ingress of a tap: from the VM */
	OXH_TAP_OUT, /* egress of a tap: to the VM */
	OXH_HOOKS
};

struct oxh_host;

struct oxh_address {
	uint8_t bytes[16];
};

struct oxh_network {
	struct oxh_address address;
	uint8_t length; /* of 32 or 128 */
};

/* A network of a set of addresses. */
struct oxh_set_network {
	uint32_t set;
	struct oxh_network network;
};

/* A program that is pinned at an interface. */
struct oxh_program {
	uint32_t hook; /* enum oxh_hook */
	uint32_t ifindex;
	uint8_t attached; /* it is there; the interface may have gone */
	uint8_t current;  /* it is this library's */
};

/* Fixed when the state is created. 0: the default. */
struct oxh_sizes {
	uint32_t entries;   /* 4,096; at most 65,535 */
	uint32_t ports;     /* 512 */
	uint32_t flows;     /* confirmed ones; 1,048,576 */
	uint32_t half_open; /* 131,072 */
};

struct oxh_settings {
	uint32_t reply_ifindex; /* answers leave by it; 0: they are dropped */
	struct oxh_address local_v4; /* of Geneve; zeroes: none */
	struct oxh_address local_v6;
	struct oxh_address sid;  /* the hypervisor's /96; zeroes: none */
	uint32_t tcp_idle;       /* seconds; 0: 7,440 */
	uint32_t udp_idle;       /* 0: 180 */
	uint32_t closing_idle;   /* after FIN or RST; 0: 120 */
	uint32_t half_open_idle; /* 0: 60 */
};

/* Whoever it lets in may open flows. */
struct oxh_rule {
	struct oxh_network remote; /* IPv4 0.0.0.0/0 or ::/0: of the family */
	uint32_t set;              /* of addresses instead; 0: `remote` */
	uint16_t port_min, port_max;
	uint8_t protocol; /* 0: each */
	uint8_t family;   /* 4, 6; of `set` */
};

struct oxh_port {
	uint8_t id[16];     /* UUID */
	uint32_t ifindex;   /* of the tap; 0: not here */
	uint32_t flows_max; /* confirmed ones; 0: 500,000 */
	uint8_t open;       /* port security is off */
	/* Of a list: */
	uint32_t flows;
	uint32_t rules;
	uint16_t generation;
};

/* A listener at a member. */
struct oxh_entry {
	uint32_t key; /* 24 bits where it comes by Geneve; not 0 */
	uint8_t port_id[16];
	struct oxh_address vip;
	struct oxh_address fixed;
	uint16_t vip_port;
	uint16_t port; /* the member's */
	uint8_t protocol;
	uint8_t mac[6];         /* the VM's */
	uint8_t gateway_mac[6]; /* source of what it gets */
	uint16_t mss;           /* of what it offers, at most; 0: any */
	/* Of a list: */
	uint64_t packets_in, bytes_in, packets_out, bytes_out;
	uint64_t flows; /* that began */
	uint64_t drops;
};

enum oxh_table {
	OXH_CONFIRMED,
	OXH_HALF_OPEN
};

struct oxh_flow {
	struct oxh_address client;
	uint16_t client_port;
	uint32_t key; /* of the entry */
	uint8_t port_id[16];
	uint32_t idle; /* seconds */
	uint8_t answered, closing;
	uint8_t direct;   /* came another way, while the VM arrived */
	uint8_t outdated; /* rules have changed since it was judged */
};

struct oxh_drop {
	uint8_t port_id[16];
	uint32_t outcome; /* enum oxh_outcome */
	uint64_t packets;
};

/* A packet through a program, as the kernel runs it for tests. */
struct oxh_frame {
	const uint8_t *data;
	uint32_t length;
	uint32_t ifindex; /* that it comes in at, or leaves by */
	uint32_t mark;    /* before, and after */
	uint8_t *out;     /* OXH_FRAME_MAX bytes */
	uint32_t out_length;
	uint32_t action;   /* TC_ACT_…; 0xffffffff: left alone */
	uint32_t duration; /* ns that the program took */
};

struct oxh_traced {
	uint64_t time;    /* ns, monotonic */
	uint32_t hook;    /* enum oxh_hook */
	uint32_t outcome; /* enum oxh_outcome */
	uint32_t ifindex;
	uint32_t key;     /* 0: none */
	uint32_t length;  /* of the frame */
	uint8_t data[96]; /* its first bytes, as they left the program */
};

/* Makes the state unless it is there; 1: it was not. -EOPNOTSUPP: the kernel
 * has no tcx (Linux 6.6); -EPROTO: it is there with another layout. `folder`
 * is made; its parent is in a bpffs. */
int oxh_create(const char *folder, const struct oxh_sizes *sizes, char *error);

int oxh_open(const char *folder, struct oxh_host **out, char *error);

void oxh_close(struct oxh_host *host);

/* Detaches all and removes the state; 1: there was none. */
int oxh_remove(const char *folder, char *error);

/* To be called again when the MTU of `reply_ifindex` has become less: until
 * then answers in between are lost. */
int oxh_settings_set(struct oxh_host *host, const struct oxh_settings *settings,
		     char *error);

/* All networks of LB nodes: outer sources, and probes. */
int oxh_networks_set(struct oxh_host *host, const struct oxh_network *networks,
		     uint32_t count, char *error);

/* All networks of other hypervisors: packets whose connection is not known here
 * are handed on to these alone, and are taken from these if it is. */
int oxh_peers_set(struct oxh_host *host, const struct oxh_network *networks,
		  uint32_t count, char *error);

/* The addresses of a set that rules name; `set` is not 0. */
int oxh_set_set(struct oxh_host *host, uint32_t set,
		const struct oxh_network *networks, uint32_t count,
		char *error);

/* 1: the program was attached, or replaced; 0: it is that one. Before all
 * others of the interface. */
int oxh_attach(struct oxh_host *host, uint32_t hook, uint32_t ifindex,
	       char *error);

/* 1: there was none. */
int oxh_detach(struct oxh_host *host, uint32_t hook, uint32_t ifindex,
	       char *error);

/* A port with all its rules. Flows are judged again at their next packet if
 * rules or `open` have changed. If a tap comes to a port that was there without
 * one, its VM may have moved: for about a minute after its first packet what it
 * sends of connections that are not known is dropped, so that flows can be
 * added. */
int oxh_port_set(struct oxh_host *host, const struct oxh_port *port,
		 const struct oxh_rule *rules, uint32_t count, char *error);

/* With its entries and flows; 1: there was none. */
int oxh_port_delete(struct oxh_host *host, const uint8_t id[16], char *error);

/* -ENOENT: no such port; -EEXIST: the key, or the listener at this member, is
 * another's. */
int oxh_entry_set(struct oxh_host *host, const struct oxh_entry *entry,
		  char *error);

/* With its flows; 1: there was none. */
int oxh_entry_delete(struct oxh_host *host, uint32_t key, char *error);

/* Lists: `capacity` are written at most; how many there are is returned. */
int oxh_ports_list(struct oxh_host *host, struct oxh_port *out,
		   uint32_t capacity, char *error);
int oxh_entries_list(struct oxh_host *host, struct oxh_entry *out,
		     uint32_t capacity, char *error);
int oxh_flows_list(struct oxh_host *host, uint32_t table, struct oxh_flow *out,
		   uint32_t capacity, char *error);
int oxh_drops_list(struct oxh_host *host, struct oxh_drop *out,
		   uint32_t capacity, char *error);
int oxh_outcomes_list(struct oxh_host *host, uint64_t *packets,
		      uint32_t capacity, char *error);

/* The rules of a port, in the order in which they were set, addresses masked;
 * of a rule with a set `remote` is its family's whole. -ENOENT: no such port.
 */
int oxh_rules_list(struct oxh_host *host, const uint8_t id[16],
		   struct oxh_rule *out, uint32_t capacity, char *error);
/* Of oxh_networks_set(). */
int oxh_networks_list(struct oxh_host *host, struct oxh_network *out,
		      uint32_t capacity, char *error);
/* Of oxh_peers_set(). */
int oxh_peers_list(struct oxh_host *host, struct oxh_network *out,
		   uint32_t capacity, char *error);
/* Networks of all sets. */
int oxh_sets_list(struct oxh_host *host, struct oxh_set_network *out,
		  uint32_t capacity, char *error);
/* What is pinned; changes nothing. */
int oxh_programs_list(struct oxh_host *host, struct oxh_program *out,
		      uint32_t capacity, char *error);

/* Settings as they are used: with defaults and limits of times. */
int oxh_settings_get(struct oxh_host *host, struct oxh_settings *out,
		     char *error);

/* Confirmed flows of one port, a list as those above. -ENOENT: no such port. */
int oxh_port_flows_list(struct oxh_host *host, const uint8_t id[16],
			struct oxh_flow *out, uint32_t capacity, char *error);

/* Makes flows known that began on another hypervisor, as confirmed ones: read
 * are client, client_port, key and closing. At its next packet each is judged
 * by the rules of its port. Left out is what is known already or has no entry,
 * and what finds no room, of the port or the table. Returns how many were
 * added. */
int oxh_flows_add(struct oxh_host *host, const struct oxh_flow *flows,
		  uint32_t count, char *error);

/* Frees what is over and counts the ports' flows again; to be called every
 * few seconds. Returns how many were freed. */
int oxh_tick(struct oxh_host *host, char *error);

/* Runs a frame; it changes flows and counters as any does. */
int oxh_run(struct oxh_host *host, uint32_t hook, struct oxh_frame *frame,
	    char *error);

/* Packets of a port, OXH_ALL_PORTS by `id` NULL, go to whoever asks next;
 * `on` 0 ends it. */
int oxh_trace(struct oxh_host *host, const uint8_t *id, uint32_t on,
	      char *error);

/* Waits for packets, at most so long; returns how many were written. */
int oxh_trace_next(struct oxh_host *host, struct oxh_traced *out,
		   uint32_t capacity, uint32_t timeout_ms, char *error);

#ifdef __cplusplus
}
#endif

#endif
