/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data path of a hypervisor (bpf/host) and its state, which is pinned in a
 * folder of its own below a bpffs and works without any process.
 *
 * Addresses are 16 bytes in network byte order, IPv4 as ::ffff:a.b.c.d; ports,
 * keys and numbers are in host byte order, times in seconds. Every call is
 * idempotent. Functions return 0 or what their comment says, or a negative
 * errno with a text in `error`, which may be NULL and otherwise has
 * OXH_ERROR_LENGTH bytes. A handle is for one thread; handles and processes
 * exclude each other by a lock on the folder.
 */
#ifndef OCTAVIA_XDP_HOST_H
#define OCTAVIA_XDP_HOST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OXH_API_VERSION 6
#define OXH_ERROR_LENGTH 512
#define OXH_RULES_MAX 128 /* per port */
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
	uint8_t length; /* prefix, of 32 or 128 bits */
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
	uint8_t attached; /* attached; the interface may be gone */
	uint8_t current;  /* it is this library's program */
};

/* Fixed when the state is created. 0: the default. */
struct oxh_sizes {
	uint32_t entries;   /* 4,096; at most 65,535 */
	uint32_t ports;     /* 512 */
	uint32_t flows;     /* confirmed flows; 1,048,576 */
	uint32_t half_open; /* 131,072 */
};

struct oxh_settings {
	uint32_t reply_ifindex; /* interface for replies; 0: they are dropped */
	struct oxh_address local_v4; /* for Geneve; zeroes: none */
	struct oxh_address local_v6;
	struct oxh_address sid;  /* the hypervisor's /96; zeroes: none */
	uint32_t tcp_idle;       /* seconds; 0: 7,440 */
	uint32_t udp_idle;       /* 0: 180 */
	uint32_t closing_idle;   /* after FIN or RST; 0: 120 */
	uint32_t half_open_idle; /* 0: 60 */
};

/* Flows that may be opened. */
struct oxh_rule {
	struct oxh_network remote; /* 0.0.0.0/0 or ::/0: whole family */
	uint32_t set; /* of addresses, replaces `remote`; 0: none */
	uint16_t port_min, port_max;
	uint8_t protocol; /* 0: any */
	uint8_t family;   /* 4, 6; with `set` */
};

struct oxh_port {
	uint8_t id[16];     /* UUID */
	uint32_t ifindex;   /* of the tap; 0: not here */
	uint32_t flows_max; /* maximum of confirmed flows; 0: 500,000 */
	uint8_t open;       /* port security is off */
	/* Output of lists only: */
	uint32_t flows;
	uint32_t rules;
	uint16_t generation;
};

/* A listener at a member. */
struct oxh_entry {
	uint32_t key; /* 24 bits if used with Geneve; not 0 */
	uint8_t port_id[16];
	struct oxh_address vip;
	struct oxh_address fixed;
	uint16_t vip_port;
	uint16_t port; /* the member's */
	uint8_t protocol;
	uint8_t mac[6];         /* the VM's */
	uint8_t gateway_mac[6]; /* source of frames to the VM */
	uint16_t mss; /* upper limit for the MSS that the VM offers; 0: none */
	/* Output of lists only: */
	uint64_t packets_in, bytes_in, packets_out, bytes_out;
	uint64_t flows; /* flows opened */
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
	uint8_t direct;   /* came by another way while the VM arrived */
	uint8_t outdated; /* rules have changed since they were applied */
};

struct oxh_drop {
	uint8_t port_id[16];
	uint32_t outcome; /* enum oxh_outcome */
	uint64_t packets;
};

/* A packet for a test run of a program in the kernel. */
struct oxh_frame {
	const uint8_t *data;
	uint32_t length;
	uint32_t ifindex; /* where it comes in, or leaves */
	uint32_t mark;    /* before and after */
	uint8_t *out;     /* OXH_FRAME_MAX bytes */
	uint32_t out_length;
	uint32_t action;   /* TC_ACT_…; 0xffffffff: not handled */
	uint32_t duration; /* run time of the program, ns */
};

struct oxh_traced {
	uint64_t time;    /* ns, monotonic */
	uint32_t hook;    /* enum oxh_hook */
	uint32_t outcome; /* enum oxh_outcome */
	uint32_t ifindex;
	uint32_t key;     /* 0: none */
	uint32_t length;  /* of the frame */
	uint8_t data[96]; /* its first bytes, after the program */
};

/* Creates the state; 1: it was created, 0: it existed. -EOPNOTSUPP: the kernel
 * lacks tcx (Linux 6.6); -EPROTO: it exists with another layout. `folder` is
 * created; its parent must be on a bpffs. */
int oxh_create(const char *folder, const struct oxh_sizes *sizes, char *error);

int oxh_open(const char *folder, struct oxh_host **out, char *error);

void oxh_close(struct oxh_host *host);

/* Detaches all programs and removes the state; 1: there was none. */
int oxh_remove(const char *folder, char *error);

/* Call again when the MTU of `reply_ifindex` has shrunk: larger replies are
 * lost until then. */
int oxh_settings_set(struct oxh_host *host, const struct oxh_settings *settings,
		     char *error);

/* Sets all networks of LB nodes: outer sources, and sources of probes. */
int oxh_networks_set(struct oxh_host *host, const struct oxh_network *networks,
		     uint32_t count, char *error);

/* Sets all networks of proxy nodes: outer sources. Rules of ports apply to
 * their connections as to those of clients. */
int oxh_proxies_set(struct oxh_host *host, const struct oxh_network *networks,
		    uint32_t count, char *error);

/* Sets all networks of other hypervisors. Packets of unknown connections are
 * handed on only to these, and packets that these hand on are accepted if their
 * connection is known. */
int oxh_peers_set(struct oxh_host *host, const struct oxh_network *networks,
		  uint32_t count, char *error);

/* Sets the addresses of a set that rules use; `set` is not 0. */
int oxh_set_set(struct oxh_host *host, uint32_t set,
		const struct oxh_network *networks, uint32_t count,
		char *error);

/* Attaches a program in front of all others on the interface. 1: attached or
 * replaced; 0: it already was. */
int oxh_attach(struct oxh_host *host, uint32_t hook, uint32_t ifindex,
	       char *error);

/* 1: there was none. */
int oxh_detach(struct oxh_host *host, uint32_t hook, uint32_t ifindex,
	       char *error);

/* Sets a port with all its rules. If rules or `open` have changed, flows are
 * checked again at their next packet. If a tap appears at a port that existed
 * without one, its VM may have moved: for about a minute after the VM's first
 * packet those of unknown connections are dropped, so that flows can be added.
 */
int oxh_port_set(struct oxh_host *host, const struct oxh_port *port,
		 const struct oxh_rule *rules, uint32_t count, char *error);

/* Deletes a port with its entries and flows; 1: there was none. */
int oxh_port_delete(struct oxh_host *host, const uint8_t id[16], char *error);

/* -ENOENT: no such port; -EEXIST: the key, or the listener at this member,
 * belongs to another entry. */
int oxh_entry_set(struct oxh_host *host, const struct oxh_entry *entry,
		  char *error);

/* Deletes an entry with its flows; 1: there was none. */
int oxh_entry_delete(struct oxh_host *host, uint32_t key, char *error);

/* Lists write at most `capacity` elements and return how many exist. */
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
 * with a set `remote` is the whole family. -ENOENT: no such port. */
int oxh_rules_list(struct oxh_host *host, const uint8_t id[16],
		   struct oxh_rule *out, uint32_t capacity, char *error);
/* As set by oxh_networks_set(). */
int oxh_networks_list(struct oxh_host *host, struct oxh_network *out,
		      uint32_t capacity, char *error);
/* As set by oxh_proxies_set(). */
int oxh_proxies_list(struct oxh_host *host, struct oxh_network *out,
		     uint32_t capacity, char *error);
/* As set by oxh_peers_set(). */
int oxh_peers_list(struct oxh_host *host, struct oxh_network *out,
		   uint32_t capacity, char *error);
/* Networks of all sets. */
int oxh_sets_list(struct oxh_host *host, struct oxh_set_network *out,
		  uint32_t capacity, char *error);
/* Lists pinned programs. */
int oxh_programs_list(struct oxh_host *host, struct oxh_program *out,
		      uint32_t capacity, char *error);

/* Gets the settings in force: with defaults and limits applied. */
int oxh_settings_get(struct oxh_host *host, struct oxh_settings *out,
		     char *error);

/* Lists the confirmed flows of one port. -ENOENT: no such port. */
int oxh_port_flows_list(struct oxh_host *host, const uint8_t id[16],
			struct oxh_flow *out, uint32_t capacity, char *error);

/* Adds flows that began on another hypervisor as confirmed ones; reads client,
 * client_port, key and closing. At its next packet each flow is checked against
 * the rules of its port. Skips flows that are known already, have no entry, or
 * do not fit in the port or the table. Returns how many were added. */
int oxh_flows_add(struct oxh_host *host, const struct oxh_flow *flows,
		  uint32_t count, char *error);

/* Frees expired flows and recounts the ports' flows; to be called every few
 * seconds. Returns how many were freed. */
int oxh_tick(struct oxh_host *host, char *error);

/* Runs a program on a frame, which changes flows and counters as packets do. */
int oxh_run(struct oxh_host *host, uint32_t hook, struct oxh_frame *frame,
	    char *error);

/* Traces packets of a port, of all ports if `id` is NULL, for the next
 * oxh_trace_next(); `on` 0 ends the trace. */
int oxh_trace(struct oxh_host *host, const uint8_t *id, uint32_t on,
	      char *error);

/* Waits at most `timeout_ms` for packets; returns how many were written. */
int oxh_trace_next(struct oxh_host *host, struct oxh_traced *out,
		   uint32_t capacity, uint32_t timeout_ms, char *error);

#ifdef __cplusplus
}
#endif

#endif
