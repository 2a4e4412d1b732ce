/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
/*
 * The library's whole interface. The Python binding parses this text (the
 * library carries it as the string oxp_api_header), so it stays in the plain
 * subset of C that cffi reads: integer #defines, enums, structs and function
 * declarations; the build expands the lists of enumerations.h.
 *
 * Functions are named oxp_<noun>_<verb>(). The noun is what the call acts on,
 * in the plural if it acts on any number of them; the verbs are
 *   set     makes the state exactly as given, a no-op if it already is
 *   get     reads one
 *   list    fills an array (see below)
 *   delete, remove, attach, detach, open, close, read, run, apply: literal
 * oxp_open(), oxp_close(), oxp_export(), oxp_export_part(),
 * oxp_handover_begin(), oxp_handover_end() and oxp_upgrade() never change in
 * any version: see "Another library takes over".
 *
 * Every function here has a caller in the product. What only tests need is in
 * tests/support/test_interface.h and not in the installed library.
 *
 * Conventions:
 *  - A number with a unit names it: _s, _ms, _ns, _bytes, or its comment does
 *    (packets per second). Fields called `reserved` are zero.
 *  - Addresses are 16 bytes in network order, IPv4 as ::ffff:a.b.c.d.
 *    Ports are numbers in host order.
 *  - Functions return 0 (or a count, where stated) or a negative errno. `error`
 *    may be NULL; otherwise it points to OXP_ERROR_LENGTH bytes and holds one
 *    line of text after a failure.
 *  - Functions that fill an array ("list") return how many elements exist,
 *    which may be more than `capacity`; they never write more than `capacity`.
 *  - Several threads may use a node, and several processes the pinned state, at
 *    once. Do not use a node on both sides of a fork().
 */
#ifndef OCTAVIA_XDP_H
#define OCTAVIA_XDP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface; increases when anything here changes meaning. */
#define OXP_API_VERSION 14

#define OXP_ERROR_LENGTH 512
#define OXP_SLOTS_LIMIT 1048573 /* largest allowed table */
#define OXP_MEMBERS_MAX 4096    /* per service */
#define OXP_ALLOWED_MAX 65536   /* networks, per service */

#define OXP_UPLINKS_MAX 8
#define OXP_WEIGHT_MAX 256

/*
 * What happened to a packet. All outcomes but the first two are counted here:
 * forwarded packets are counted by service and member, and packets that are not
 * for a VIP must cost nothing. enumerations.h lists and describes the outcomes;
 * doc/source/contributor/forwarding.rst says which packets get which.
 */
enum oxp_outcome {
#define OXP_OUTCOME(name, number, kind, text) OXP_##name = number,
#include "enumerations.h"
	OXP_OUTCOMES
};

struct oxp_node; /* an opened datapath */

struct oxp_address {
	uint8_t bytes[16];
};

struct oxp_key {
	struct oxp_address vip;
	uint16_t port;
	uint8_t protocol; /* 6 TCP, 17 UDP, 132 SCTP */
	uint8_t reserved;
};

/* Never changes in any version. */
struct oxp_options {
	const char *pin_directory; /* on a bpffs; created if missing */
	const char *lock_file;     /* one per node; created if missing */
	/* Sizes matter only when the state is created; 0 means the default. */
	uint32_t services_max; /* default 1024 */
	uint32_t members_max;  /* of all services; default 16 * services_max */
	uint32_t slots_max;    /* per service; default OXP_SLOTS_LIMIT */
	uint32_t flows_max;    /* flows remembered while slots change owners;
				* a power of two, default 1048576, 8 bytes each */
	uint8_t create;        /* load and pin if nothing is pinned */
};

struct oxp_info {
	uint32_t layout; /* version of the pinned maps */
	uint32_t services_max;
	uint32_t members_max;
	uint32_t slots_max;
	uint32_t flows_max;
	uint32_t services;  /* in use */
	uint32_t members;   /* in use */
	uint64_t map_bytes; /* size of the pinned tables */
};

/* Opens the pinned state, or creates it. -ENOENT: nothing is pinned and
 * `create` is 0. -EPROTO: another layout version is pinned. -EPERM: `error`
 * names the required capabilities. Other versions call this. */
int oxp_open(const struct oxp_options *options, struct oxp_node **node,
	     char *error);
/* Frees the node; the kernel continues to forward. Other versions call this. */
void oxp_close(struct oxp_node *node);
int oxp_info_get(struct oxp_node *node, struct oxp_info *info, char *error);

/* Attaches the forwarding program to an interface of the caller's network
 * namespace, in the driver (native mode); it stays after the process ends.
 * Another program of this node is replaced by this library's without losing a
 * packet; this library's own program stays as it is. */
int oxp_interface_attach(struct oxp_node *node, uint32_t ifindex, char *error);
/* -ENOENT if it was not attached. */
int oxp_interface_detach(struct oxp_node *node, uint32_t ifindex, char *error);

/* An uplink. Either next hop may be all zeroes: unknown, and the uplink then
 * carries no packets of that family. */
struct oxp_uplink {
	uint32_t ifindex; /* of the device below VLANs, on which XDP runs */
	uint16_t mtu;     /* largest IP packet, bytes */
	uint8_t own_mac[6];
	uint8_t next_hop_mac_v4[6]; /* next hop of IPv4 outer packets */
	uint8_t next_hop_mac_v6[6]; /* next hop of IPv6 outer packets */
	uint8_t vlans;              /* 0 to 2 tags, outermost first: one is
				     * 802.1Q, of two the first is 802.1ad */
	uint8_t reserved;
	uint16_t vlan[2]; /* priority, DEI and id, host order */
};

/* Replaces all uplinks at once; a packet sees either the old or the new ones. A
 * flow keeps its uplink while the usable uplinks stay the same. */
int oxp_uplinks_set(struct oxp_node *node, const struct oxp_uplink *uplinks,
		    uint32_t count, char *error);

enum oxp_node_flag {
	OXP_NODE_ECHO = 1, /* answer echo requests to VIPs */
	OXP_NODE_CLAMP_MSS =
		2, /* of clients' SYNs to what members' paths carry */
	OXP_NODE_PASS_TOO_BIG = 4, /* pass IPv4 without DF beyond the MTU to the
				    * kernel's stack instead of dropping it */
	OXP_NODE_FIB = 8 /* look up the kernel's routes for each packet: slow,
			  * for nodes that fixed uplinks cannot describe */
};

struct oxp_node_settings {
	/* Outer source addresses; zeroes: none, and members of that family get
	 * no packets. The flow's hash replaces the low `entropy` bits, so that
	 * receivers spread flows over their queues. */
	struct oxp_address source_v4;
	struct oxp_address source_v6;
	uint8_t entropy_v4; /* 0 to 16 bits */
	uint8_t entropy_v6; /* 0 to 32 bits */
	uint16_t reserved;
	uint32_t flags; /* enum oxp_node_flag */
	/* Replies per second and CPU that the node sends itself, for each kind
	 * (echo reply, too big, reset); 0: none. One source gets at most an
	 * eighth of them. */
	uint32_t icmp_rate;
};

/* Each setting takes effect on its own. A change of source_v6 takes several
 * stores: for a moment a packet may leave with a mix of the old and the new
 * address as its outer source. Everything else is one word. */
int oxp_node_settings_set(struct oxp_node *node,
			  const struct oxp_node_settings *settings,
			  char *error);

/* How packets get to members: see enumerations.h. */
enum oxp_encapsulation {
#define OXP_ENCAPSULATION(name, number, shim, option, text) OXP_##name = number,
#include "enumerations.h"
};
#define OXP_GUE_PORT 6080
/* Bytes that an outer header grows by when it names an alternative
 * (OXP_SERVICE_SECOND_CHANCE), over IPv4 and IPv6. */
#define OXP_ALTERNATIVE_V4 12
#define OXP_ALTERNATIVE_V6 24
#define OXP_GENEVE_PORT 6081
#define OXP_VNI_MAX 16777215 /* keys of OXP_GENEVE have 24 bits */

enum oxp_service_flag {
	OXP_SERVICE_SOURCE = 1, /* all flows of a client go to one member */
	OXP_SERVICE_QUIC = 2,   /* UDP: by QUIC connection ID if it is ours */
	/* TCP by GUE, Geneve or SRv6, without OXP_SERVICE_SOURCE: packets name
	 * a second member if the first may not have their flow */
	OXP_SERVICE_SECOND_CHANCE = 4,
	/* TCP and UDP: addresses and ports are rewritten in both directions,
	 * see "NAT" below; without OXP_SERVICE_SOURCE, OXP_SERVICE_QUIC,
	 * OXP_SERVICE_SECOND_CHANCE, tunnels, and with `encapsulation` 0 */
	OXP_SERVICE_NAT = 8,
	/* with a `connection_limit`: excess connections get a TCP reset */
	OXP_SERVICE_RESET = 16
};

#define OXP_NAT_FLOWS_MAX 16776960
/* Tenants that share ports: see `nat_group` of struct oxp_service_settings. */
#define OXP_NAT_GROUPS 256
/* Maximum flows of one group whose handshake is not complete. */
#define OXP_NAT_HALF_OPEN_MAX 4088

struct oxp_network {
	struct oxp_address address;
	uint8_t length; /* prefix, of 128 or for IPv4 of 32 bits */
};

struct oxp_service_settings {
	uint32_t slots; /* prime, at most slots_max; 0: as the members require,
			 * see doc/source/contributor/tables.rst */
	uint32_t flags; /* enum oxp_service_flag */
	uint8_t encapsulation;    /* enum oxp_encapsulation */
	uint8_t dscp;             /* of OXP_DSCP: 1 to 63 */
	uint16_t sid_function;    /* with OXP_SRV6: replaces the last 16 bits of
				   * the member's address; 0: none */
	uint8_t source_length_v4; /* with OXP_SERVICE_SOURCE: prefix */
	uint8_t source_length_v6; /* that counts as one client; 0: 32 and 128 */
	uint16_t idle_timeout_s; /* time without a packet after which a flow may
				  * move to another member, 10 to 16000; 0: 350.
				  * With OXP_SERVICE_NAT an established flow
				  * ends after it; 0: 7440 for TCP (RFC 5382),
				  * 300 for UDP (RFC 4787) */
	uint32_t new_flow_rate;  /* flows per second that one source may open at
				  * the service; 0: no limit */
	uint32_t new_flow_burst; /* 0: same as new_flow_rate */
	const struct oxp_network *allowed; /* sources; NULL: all */
	uint32_t allowed_count;            /* at most OXP_ALLOWED_MAX */
	/* With OXP_SERVICE_NAT. All services of a group, such as those of one
	 * tenant, share a part of the node's ports: new flows are refused once
	 * they have `nat_flows` together, rounded up to a multiple of 256. 0:
	 * half of all ports. */
	uint32_t nat_flows; /* at most OXP_NAT_FLOWS_MAX */
	uint16_t nat_group; /* below OXP_NAT_GROUPS */
	uint16_t reserved;
	/* With OXP_SERVICE_NAT, TCP: maximum number of simultaneous
	 * connections; more are refused. 0: no limit. */
	uint32_t connection_limit;
	uint32_t reserved2;
};

/* How packets get to a member whose address is not in them. All zeroes: by the
 * service's encapsulation to the member's own address. */
struct oxp_tunnel {
	struct oxp_address address; /* destination of the outer header */
	uint32_t key; /* OXP_GENEVE: the VNI; OXP_SRV6: the last 32 bits of the
		       * SID, which are 0 in `address` then; 0: none */
	uint8_t encapsulation; /* enum oxp_encapsulation except OXP_DSCP */
	uint8_t keeps_port; /* the member's port is only part of its identity:
			     * the tunnel's endpoint knows what to write */
	/* The endpoint accepts packets that name an alternative, as with
	 * OXP_SERVICE_SECOND_CHANCE. OXP_GUE, OXP_GENEVE and OXP_SRV6. */
	uint8_t takes_alternative;
	uint8_t reserved;
};

struct oxp_member {
	/* With the port, the member's identity, unique within a service: slots,
	 * remembered flows and QUIC server IDs are derived from it and do not
	 * change with the tunnel. */
	struct oxp_address address;
	uint64_t
		check; /* id of the health check; 0: not monitored, always up */
	uint16_t weight; /* 0 to OXP_WEIGHT_MAX; 0: no new flows, others stay */
	uint16_t mtu; /* of the path, for the outer packet; 0: the uplink's */
	uint8_t admin_up;
	uint8_t backup; /* takes flows only while no other member can */
	uint16_t port;  /* replaces the service's port in packets, TCP and UDP
			 * only; 0: unchanged. Replies do not pass the node. */
	struct oxp_tunnel tunnel;
};

/* Creates or changes a service to exactly these settings and members: packets
 * see all of the old service or all of the new one. Members that stay keep
 * their known health, and flows keep members that can take them, unless
 * OXP_SERVICE_SOURCE or its lengths change: flows then have other slots.
 * settings == NULL: all zeroes. *changed says whether anything was written; may
 * be NULL. -EINVAL and others: nothing was written, and `error` names the
 * setting. */
int oxp_service_set(struct oxp_node *node, const struct oxp_key *key,
		    const struct oxp_service_settings *settings,
		    const struct oxp_member *members, uint32_t count,
		    uint8_t *changed, char *error);

/* A service for oxp_services_set(). */
struct oxp_wanted_service {
	struct oxp_key key;
	const struct oxp_service_settings *settings; /* NULL: all zeroes */
	const struct oxp_member *members;
	uint32_t count;
	/* out: */
	int32_t status; /* 0 or the negative errno for this service */
	uint8_t changed;
	uint8_t reserved[3];
};

/* oxp_service_set() for many services at once: tables are computed in parallel
 * and only once for equal members, and packets are waited for at most once.
 * Each service is set whole or not at all; a refused service does not keep the
 * others from being set. Returns how many changed, or the status of the first
 * failure, which `error` describes. Keys must be unique. */
int oxp_services_set(struct oxp_node *node, struct oxp_wanted_service *services,
		     uint32_t count, char *error);
/* Returns how many of the keys existed and have been deleted. */
int oxp_services_delete(struct oxp_node *node, const struct oxp_key *keys,
			uint32_t count, char *error);

/* Totals over all CPUs since the service or member was created. Bytes are those
 * of the clients' IP packets, without our outer header. */
struct oxp_counters {
	uint64_t packets;
	uint64_t bytes;
	uint64_t flows; /* TCP SYNs, SCTP INITs, QUIC Initials; 0 for UDP */
};

struct oxp_service {
	struct oxp_key key;
	uint32_t index;
	uint32_t slots;
	uint32_t members;
	uint32_t enabled;    /* members that may take new flows */
	uint32_t open_slots; /* changing owners: flows there are remembered */
	uint64_t generation; /* grows with each switch */
	/* a hash of all that oxp_members_list() returns except counters: equal
	 * hashes mean equal members */
	uint64_t members_state;
	struct oxp_service_settings settings; /* with allowed == NULL */
	struct oxp_counters counters;
	/* Packets with an OXP_DROP_… outcome since the service was created, if
	 * the service was known when they were dropped. Not in `counters`. */
	uint64_t drops;
	/* Packets with OXP_FLOW_TABLE_FULL since then: flows that began in open
	 * slots and found no place. They are in `counters` as well. */
	uint64_t flow_table_full;
	/* Flows that are alive, as far as this node can tell: a packet other
	 * than the opening one came in the last idle_timeout_s, and the client
	 * has not ended the flow (FIN or RST; for SCTP SHUTDOWN or ABORT).
	 * Counted, or estimated from a sample while there are many packets or
	 * flows; doc/source/contributor/statuses.rst describes the accuracy. 0
	 * unless oxp_slots_age() is called. */
	uint32_t active_flows;
	/* With a connection_limit: connections that count towards it now. */
	uint32_t open_connections;
	/* With OXP_SERVICE_NAT, where active_flows is exact: packets sent to
	 * clients and their bytes as IP packets. Otherwise 0, as replies do not
	 * pass the node. */
	uint64_t reply_packets;
	uint64_t reply_bytes;
};

/* The server ID of a member that QUIC servers put into their connection IDs
 * (draft-ietf-quic-load-balancers, plaintext, 4 bytes, config rotation
 * OXP_QUIC_CONFIG): the CRC-32C of the 16 bytes of its address, big endian.
 * Where an address has several ports, the CRC of all but the lowest port also
 * covers the two bytes of the port. */
#define OXP_QUIC_CONFIG 0
#define OXP_QUIC_SERVER_ID_LENGTH 4

struct oxp_member_state {
	struct oxp_address address;
	uint64_t check;
	uint16_t weight;
	uint16_t mtu;
	uint8_t admin_up;
	uint8_t backup;
	uint8_t healthy;     /* as last reported, or as assumed */
	uint8_t known;       /* a health check has reported */
	uint8_t takes_flows; /* may take new flows: up, with a weight, and no
			      * backup while others serve */
	uint16_t index; /* within the service; stable while the member stays */
	uint32_t quic_server_id; /* see OXP_QUIC_CONFIG */
	struct oxp_counters counters;
	uint16_t port; /* 0: packets keep the service's port */
	uint16_t reserved[3];
	struct oxp_tunnel tunnel; /* all zeroes: no tunnel of its own */
};

/* Lists all services, ordered by key. Returns how many there are. */
int oxp_services_list(struct oxp_node *node, struct oxp_service *out,
		      uint32_t capacity, char *error);
/* Gets one service. -ENOENT if it does not exist. */
int oxp_service_get(struct oxp_node *node, const struct oxp_key *key,
		    struct oxp_service *out, char *error);
/* Lists members, ordered by address and port. Returns how many there are. */
int oxp_members_list(struct oxp_node *node, const struct oxp_key *key,
		     struct oxp_member_state *out, uint32_t capacity,
		     char *error);
/* Lists the networks of settings.allowed. Returns how many there are. */
int oxp_networks_list(struct oxp_node *node, const struct oxp_key *key,
		      struct oxp_network *out, uint32_t capacity, char *error);
/* The lookup table: each slot's position in oxp_members_list(), or
 * OXP_NO_MEMBER. `before`, which may be NULL, gets the members of flows that
 * began before the last change; in slots that are not open they are the same as
 * in `out`. While the number of slots changes, `before` has another one: a flow
 * is at the same fraction of both. *before_slots, which may be NULL, gets that
 * number; `capacity` elements of either are written at most. Returns the slots.
 */
#define OXP_NO_MEMBER 65535
int oxp_table_get(struct oxp_node *node, const struct oxp_key *key,
		  uint16_t *out, uint16_t *before, uint32_t capacity,
		  uint32_t *before_slots, char *error);

struct oxp_health_result {
	uint64_t check;
	uint8_t up;
};

/* Applies results of health checks, in order, to every service whose members
 * have these checks; each affected table is rebuilt once. Unknown checks are
 * ignored. Returns the number of tables that switched. */
int oxp_health_apply(struct oxp_node *node,
		     const struct oxp_health_result *results, uint32_t count,
		     char *error);

/* Ages the open slots, and closes those where for the service's idle timeout no
 * packet has gone to another member than the slot's own. To be called about
 * once a second by one process of the node: extra calls do nothing, late calls
 * only keep slots open for longer. It also waits for packets that still use old
 * state, so that the next updates need not, and decides which flows are watched
 * for oxp_service.active_flows. Returns the number of open slots. */
int oxp_slots_age(struct oxp_node *node, char *error);

/* A member's weight for new flows until a past change of members that take any.
 */
struct oxp_past_weight {
	struct oxp_address address; /* with the port, the member's identity */
	uint16_t port;
	uint16_t weight; /* 0: it took no new flows */
	uint32_t slots; /* of the service until the change; 0: as many as now */
	uint32_t age_s; /* seconds since the change */
};
#define OXP_HISTORY_MAX 1024

/* Applies what other nodes have recorded to a service that has not yet
 * forwarded a packet here, and whose slots therefore know only their current
 * owners: slots become as if this node had made these changes at those times,
 * and no flow of an earlier owner had sent anything since. `past` has the
 * newest change first; elements of equal age are one change. Members that the
 * service does not have were removed: slots that they had are closed. Whatever
 * `past` contains, only members of the service get packets, and new flows go
 * where they went. Nothing is remembered beyond a change of the number of
 * slots. May be called again as members' health becomes known. Returns 1, or 0
 * if there was nothing to do: packets were forwarded already, or the service
 * uses NAT. -EINVAL: nothing was done, and `error` names the element. */
int oxp_history_apply(struct oxp_node *node, const struct oxp_key *key,
		      const struct oxp_past_weight *past, uint32_t count,
		      char *error);

/* Totals over all CPUs. Bytes are those of frames as received, from the
 * Ethernet header on: there may be no IP packet whose length can be trusted. */
struct oxp_outcome_counters {
	uint64_t packets;
	uint64_t bytes;
};

/* out[i] is for packets with outcome i; at most `capacity` elements are
 * written. Returns OXP_OUTCOMES. */
int oxp_outcomes_list(struct oxp_node *node, struct oxp_outcome_counters *out,
		      uint32_t capacity, char *error);

/*
 * NAT (OXP_SERVICE_NAT): the client's packet goes to the member's address and
 * port from an address and a port of the node's pools, so the reply comes back
 * to the node, which rewrites it; doc/source/contributor/nat.rst. Members are
 * of either family, and need nothing but routes to the pools.
 */
#define OXP_NAT_ADDRESSES_MAX 256 /* of each family, in all pools */
#define OXP_NAT_PORT_MIN 1024     /* of each address, up to 65535 */

/* Sets the node's pools: prefixes that are routed to this node alone and of
 * which it uses each address. Flows of removed addresses are lost, other flows
 * are not touched. Each address takes 8 MiB. Replaces the program when the
 * first pool is added or the last is removed, so that nodes without pools do
 * not pay for NAT. -EINVAL, -ENOSPC, -EEXIST (two prefixes overlap, or an
 * address is a VIP): nothing is changed, and `error` names the prefix. */
int oxp_nat_pools_set(struct oxp_node *node, const struct oxp_network *pools,
		      uint32_t count, char *error);
/* Lists the pools as set, ordered by address. Returns how many there are. */
int oxp_nat_pools_list(struct oxp_node *node, struct oxp_network *out,
		       uint32_t capacity, char *error);

/*
 * Routers may move a client's flow to another node, which does not have it. A
 * TCP packet of a NAT flow unknown to the node, unless it opens the flow, and
 * an ICMP error about such a packet then go to the other nodes in turn until
 * one has the flow; further packets go straight to that node. Peers are all
 * nodes that do so, each by one address of its pools, all of one family, in the
 * same order on all of them; one of them is this node's own. None: packets are
 * neither handed on nor accepted. Peers persist as services do. -EINVAL,
 * -EEXIST, -EAFNOSUPPORT, -ENOENT (none is an address of this node's pools),
 * -ENOSPC: nothing is changed, and `error` names the peer. If the own address
 * is removed with its pool, nothing is handed on until it is back.
 */
#define OXP_NAT_PEERS_MAX 16
int oxp_nat_peers_set(struct oxp_node *node, const struct oxp_address *peers,
		      uint32_t count, char *error);
/* Returns how many there are. */
int oxp_nat_peers_list(struct oxp_node *node, struct oxp_address *out,
		       uint32_t capacity, char *error);

/*
 * A datagram does not tell that its flow began elsewhere. So peers are asked
 * about datagrams of unknown flows only while routers may move flows as
 * planned: for this many seconds (units of 2^30 ns) from now; 0: stop, which is
 * also the default of a new node. The setting persists as services do, with or
 * without peers. -EINVAL, more than OXP_NAT_SEEK_UDP_MAX: nothing is changed.
 */
#define OXP_NAT_SEEK_UDP_MAX 86400
int oxp_nat_seek_udp(struct oxp_node *node, uint32_t seconds, char *error);
/* Gets the remaining time, in *seconds. */
int oxp_nat_seek_udp_left(struct oxp_node *node, uint32_t *seconds,
			  char *error);

/* Seconds (units of 2^30 ns) without a packet after which flows end that are
 * not established; for others see each service's idle_timeout_s. 0: the
 * default. */
#define OXP_NAT_TIMEOUT_MIN 10
#define OXP_NAT_TIMEOUT_MAX 16000
struct oxp_nat_timeouts {
	uint32_t tcp_opening_s; /* half open: 240 (RFC 5382) */
	uint32_t tcp_closing_s; /* after the first FIN, unless idle_timeout_s is
				 * less: 240 (RFC 5382) */
	uint32_t time_wait_s;   /* after a FIN from both ends, or a RST: 60 */
	uint32_t udp_opening_s; /* half open: 120 (RFC 4787) */
};
/* Timeouts persist as services do, and take effect at once, also for existing
 * flows. -EINVAL: nothing is changed, and `error` names the timeout. */
int oxp_nat_timeouts_set(struct oxp_node *node,
			 const struct oxp_nat_timeouts *wanted, char *error);
/* Gets the timeouts in force, with defaults in place of zeroes. */
int oxp_nat_timeouts_get(struct oxp_node *node, struct oxp_nat_timeouts *out,
			 char *error);

struct oxp_nat_usage {
	uint32_t addresses_v4, addresses_v6; /* in pools */
	uint32_t ports;                      /* of all addresses */
	uint32_t half_open; /* flows whose handshake is not complete */
	uint32_t established;
	uint32_t time_wait; /* ended, but the port cannot be reused yet */
};
/* Counts by reading each flow. */
int oxp_nat_usage_get(struct oxp_node *node, struct oxp_nat_usage *out,
		      char *error);

enum oxp_nat_state {
	OXP_NAT_HALF_OPEN = 2,
	OXP_NAT_ESTABLISHED = 3,
	OXP_NAT_TIME_WAIT = 4
};

struct oxp_nat_flow {
	struct oxp_key service;
	struct oxp_address client;
	struct oxp_address pool; /* what the member sees */
	struct oxp_address member;
	uint16_t client_port;
	uint16_t pool_port;
	uint16_t member_port;
	uint8_t state; /* enum oxp_nat_state */
	uint8_t reserved;
	uint32_t idle_s;    /* since its last packet, units of 2^30 ns */
	uint32_t expires_s; /* time until it ends without another packet */
};

/* Selects flows; zeroes: any. */
struct oxp_nat_filter {
	struct oxp_key service;
	struct oxp_address client;
	struct oxp_address pool;
	struct oxp_address member;
	uint16_t client_port;
	uint16_t pool_port;
	uint16_t member_port;
	uint8_t state;
	uint8_t reserved;
};
/* Lists the node's flows, unordered. Returns how many match the filter, which
 * may be NULL. With client, client_port and the whole service, or with pool and
 * pool_port, this is a single lookup; otherwise each flow is read. */
int oxp_nat_flows_list(struct oxp_node *node,
		       const struct oxp_nat_filter *filter,
		       struct oxp_nat_flow *out, uint32_t capacity,
		       char *error);

/*
 * Probes through the datapath. The health checker marks a probe to a VIP
 * (SO_MARK); a program at the egress of the uplinks (tc) adds the outer header
 * that traffic to one member gets. None of this exists on a node until
 * oxp_probes_set() is called, and it does not affect any other function.
 */

/* Our marks have these upper 8 bits. */
#define OXP_PROBE_MARK 0x4f000000
#define OXP_PROBE_MARK_MASK 0xff000000
#define OXP_PROBES_MAX 1048576

/* What happened to a packet with one of our marks: see enumerations.h. */
enum oxp_probe_outcome {
#define OXP_PROBE_OUTCOME(name, number, text) OXP_PROBE_##name = number,
#include "enumerations.h"
	OXP_PROBE_OUTCOMES
};

/*
 * Tokens. A program that can't mark what it sends, such as a proxy, reaches a
 * member by a token: an address of a network set aside for this, which stands
 * for the member and is its VIP, where the tunnel ends. Packets to these
 * networks without one of our marks go to the target whose VIP is their
 * destination; those to no token are dropped (OXP_PROBE_DROP_UNKNOWN), so none
 * enters the fabric as it is. The tunnels' headers must fit the MTU of the
 * route to these networks.
 */
#define OXP_TOKEN_NETWORKS_MAX 16

struct oxp_probe {
	uint32_t mark;
	struct oxp_address vip;
	struct oxp_address member;
	uint8_t encapsulation; /* these as in struct oxp_service_settings */
	uint8_t dscp;
	uint16_t sid_function;
	uint16_t port;    /* of the member, as in struct oxp_member */
	uint8_t is_token; /* whether `vip` is a token, unique among them */
	uint8_t reserved;
	struct oxp_tunnel tunnel; /* likewise */
};

/* Sets the targets of all marks; unchanged targets are not touched. Marks must
 * be unique. If one is refused, nothing is changed. */
int oxp_probes_set(struct oxp_node *node, const struct oxp_probe *probes,
		   uint32_t count, char *error);
/* Lists all targets, ordered by mark. Returns how many there are; 0 also if
 * oxp_probes_set() was never called. */
int oxp_probes_list(struct oxp_node *node, struct oxp_probe *out,
		    uint32_t capacity, char *error);
/* Sets the networks of all tokens. Tokens outside of them are of no effect. */
int oxp_token_networks_set(struct oxp_node *node,
			   const struct oxp_network *networks, uint32_t count,
			   char *error);
/* Attaches the program to an interface that probes leave by: with VLANs the
 * interface in the route, not the device below it, in the caller's network
 * namespace. Other programs there stay. Does nothing if the program is attached
 * already. -ENOENT: oxp_probes_set() was not called yet. */
int oxp_probe_attach(struct oxp_node *node, uint32_t ifindex, char *error);
/* Detaches the program from all interfaces of the caller's network namespace
 * and removes the targets. Returns 1, or 0 if there was nothing. */
int oxp_probes_remove(struct oxp_node *node, char *error);
/* counts[i] is the number of packets with outcome i; at most `capacity`
 * elements are written. Returns OXP_PROBE_OUTCOMES, or 0 if oxp_probes_set()
 * was never called. */
int oxp_probe_outcomes_list(struct oxp_node *node, uint64_t *counts,
			    uint32_t capacity, char *error);

/*
 * For the operator's tools: what is loaded, what it would do, what it does.
 * Nothing here changes the node.
 */

int oxp_node_settings_get(struct oxp_node *node, struct oxp_node_settings *out,
			  char *error);

/* The top 6 bits of a flow's entropy select its uplink: an index into the
 * uplinks, or OXP_NO_CHOICE where the outer packet's family has no uplink. */
#define OXP_NO_CHOICE 255
struct oxp_choices {
	uint8_t v4[64];
	uint8_t v6[64];
};
/* Returns the number of uplinks. */
int oxp_uplinks_list(struct oxp_node *node, struct oxp_uplink *out,
		     uint32_t capacity, struct oxp_choices *choices,
		     char *error);

/* The program on an interface to which the node is attached. */
struct oxp_program {
	uint32_t ifindex;
	uint32_t id;
	uint8_t tag[8]; /* equal for equal instructions */
	char name[16];
	uint64_t loaded_ns; /* CLOCK_BOOTTIME */
	/* counted only with sysctl kernel.bpf_stats_enabled */
	uint64_t runs;
	uint64_t run_time_ns; /* of all runs */
};
/* Lists the programs, unordered. Returns how many there are. */
int oxp_programs_list(struct oxp_node *node, struct oxp_program *out,
		      uint32_t capacity, char *error);

/* An inconsistency in the tables; protocol 0: not specific to a service. */
struct oxp_fault {
	struct oxp_key key;
	char text[108];
};
/* Recomputes every table and reports each difference from the kernel's. Returns
 * how many faults there are. */
int oxp_faults_list(struct oxp_node *node, struct oxp_fault *out,
		    uint32_t capacity, char *error);

/* A frame for a test run of the program (BPF_PROG_TEST_RUN), never sent. */
struct oxp_frame {
	const uint8_t
		*data; /* from the Ethernet header on, at least 14 bytes */
	uint32_t length;
	uint32_t ifindex; /* where it is received; 0: the loopback device */
	uint8_t *out; /* gets the frame as it leaves, up to `capacity` bytes;
		       * may be `data`, or NULL */
	uint32_t capacity;
	/* out: */
	uint32_t out_length;
	uint32_t action; /* enum xdp_action */
	/* in: size of the first buffer of a multi-buffer frame, at least 14
	 * (since Linux 6.18); 0: a page less what the kernel needs */
	uint32_t first_bytes;
};
#define OXP_FRAME_MAX 16384

/*
 * A simulation: this library's program on the node's tables and on private
 * copies, made on opening, of all that packets change (flows, fragments, rates,
 * counters). Each frame sees what earlier frames left in the copies; the node
 * is not affected. ICMP budgets start full. Takes as much memory as the node's
 * flows plus 20 MB.
 */
struct oxp_simulation;
/* *tag gets the tag of its program, to compare with oxp_programs_list(). */
int oxp_simulation_open(struct oxp_node *node,
			struct oxp_simulation **simulation, uint8_t tag[8],
			char *error);
/* To be called before the node is closed. */
void oxp_simulation_close(struct oxp_simulation *simulation);
/* Runs one frame. outcomes[i] is how often the frame met outcome i. */
int oxp_simulation_run(struct oxp_simulation *simulation,
		       struct oxp_frame *frame, uint64_t outcomes[OXP_OUTCOMES],
		       char *error);

/* What the program decided on a frame: see enumerations.h, which also names the
 * arguments. */
enum oxp_decision_kind {
#define OXP_DECISION(name, number, arguments, text) OXP_DECIDED_##name = number,
#include "enumerations.h"
	OXP_DECISION_KINDS
};
struct oxp_decision {
	uint32_t kind;
	uint32_t argument[7];
};
#define OXP_DECISIONS_MAX 64
/* Gets the decisions on the last frame that was run, in their order. Returns
 * how many there are. */
int oxp_simulation_decisions_get(struct oxp_simulation *simulation,
				 struct oxp_decision out[OXP_DECISIONS_MAX],
				 char *error);

/*
 * Traces packets of a VIP before and after the program. While a trace is open,
 * the kernel calls two more programs around each run; without one, the
 * forwarding program is not touched. It ends with its process at the latest.
 */
#define OXP_TRACE_SNAPLEN_MAX 3520
struct oxp_trace_options {
	struct oxp_address vip; /* destination of the received packets */
	uint32_t every; /* keep 1 in `every` packets of each CPU; 0: 1 */
	uint32_t snaplen_bytes; /* of a frame to keep; 0: 256 */
	uint32_t buffer_bytes;  /* for unread packets, rounded up to a power of
				 * two; 0: 4 MiB */
};

/* One side of a packet; `captured` bytes of the frame follow. */
struct oxp_trace_packet {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t number;  /* the same on both sides */
	uint32_t ifindex; /* where it was received */
	uint32_t queue;
	uint32_t length; /* of the frame */
	uint32_t captured;
	uint32_t action; /* enum xdp_action, if `out` is 1 */
	uint8_t out;     /* 0: as received; 1: as the program left it */
	uint8_t reserved[3];
};

struct oxp_trace;
/* -ENOENT: the program is not attached to any interface. */
int oxp_trace_open(struct oxp_node *node,
		   const struct oxp_trace_options *options,
		   struct oxp_trace **trace, char *error);
void oxp_trace_close(struct oxp_trace *trace);
/* Waits at most `timeout_ms` for packets and writes them one after the other,
 * each a struct oxp_trace_packet and the bytes of its frame, padded to a
 * multiple of 8. Programs that were attached meanwhile are traced from the next
 * call on. Returns the bytes written, 0 on timeout, -EINTR after a signal.
 * `capacity` is at least OXP_TRACE_ROOM. */
#define OXP_TRACE_ROOM 4096
int oxp_trace_read(struct oxp_trace *trace, uint8_t *out, uint32_t capacity,
		   int32_t timeout_ms, char *error);
/* Number of packet sides lost because the buffer was full. */
uint64_t oxp_trace_lost_get(const struct oxp_trace *trace);

/*
 * Another library takes over while packets flow. Libraries of different layouts
 * exchange a stream (lib/upgrade/stream.h), which does not depend on the
 * layout. These functions, oxp_open(), oxp_close() and struct oxp_options never
 * change in any version: each library calls those of the other, and the tool
 * calls oxp_upgrade(), with struct oxp_upgrade, in the library of whichever
 * version a node changes to.
 */

/* Writes the node's wanted and learned state: settings, uplinks, services,
 * members and their health, tables with open slots, remembered flows, counters.
 * Not included: fragments and rates of sources. */
int oxp_export(struct oxp_node *node, int fd, char *error);

/* Writes a part of it, for what packets have written since; includes services
 * as far as needed to identify whose counters they are. */
enum oxp_part {
	OXP_PART_ALL,
	OXP_PART_FLOWS,
	OXP_PART_COUNTERS /* and ages of open slots */
};
int oxp_export_part(struct oxp_node *node, int fd, enum oxp_part part,
		    char *error);

/* Locks the node until oxp_handover_end(), which the same thread must call;
 * only oxp_export() may be called in between. *lock_file gets the lock's
 * descriptor; any copy of it holds the lock. If the process dies in between,
 * the next one repairs what it left. */
int oxp_handover_begin(struct oxp_node *node, int *lock_file, char *error);
/* taken: the pinned state has been replaced, and this one is stale for all that
 * have it open. Otherwise the hand-over is undone: all interfaces run a program
 * of this library on these tables. */
int oxp_handover_end(struct oxp_node *node, uint8_t taken, char *error);

struct oxp_upgrade_interface {
	uint32_t ifindex;
	uint8_t tag_before[8]; /* of its program */
	uint8_t changes;       /* 0: it already has this library's program */
	uint8_t reserved[3];
};

#define OXP_UPGRADE_INTERFACES 64
struct oxp_upgrade {
	uint32_t layout_before;
	uint32_t layout_after;
	uint8_t tag_after[8]; /* of the program of all interfaces */
	uint32_t services;
	uint32_t members;
	uint32_t interfaces; /* with a program of the node */
	struct oxp_upgrade_interface interface[OXP_UPGRADE_INTERFACES];
	uint32_t maps_new;    /* created beside the old ones */
	uint32_t maps_handed; /* used by both: nothing in them is copied */
	uint64_t map_bytes; /* of the new maps, needed in addition until the old
			     * ones are freed */
	uint8_t changes; /* 0: everything already is as this library wants it */
	uint8_t reserved[7];
};

/* Replaces the pinned program and layout, whichever they are, by this
 * library's. All new maps are created and filled beside the old ones; then each
 * interface changes to the new program in one step, and the new pins replace
 * the old ones in one step. Until that last step any failure or death leaves
 * the old state in force. `from`: the library of the pinned layout if that is
 * another one; NULL: liboctavia_xdp.so.<layout> in this library's folder, or
 * where the dynamic loader finds it. dry_run: everything except the changes. */
int oxp_upgrade(const struct oxp_options *options, const char *from,
		uint8_t dry_run, struct oxp_upgrade *out, char *error);

#ifdef __cplusplus
}
#endif

#endif
