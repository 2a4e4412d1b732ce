/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
/*
 * The library's whole interface. The Python binding parses this very text
 * (the library carries it as the string oxp_api_header), so it stays in the
 * plain subset of C that cffi reads: integer #defines, enums, structs and
 * function declarations; the build expands the lists of enumerations.h.
 *
 * Names: oxp_<noun>_<verb>(). The noun is what the call is about, in the plural
 * where it is about any number of them; the verbs are
 *   set     makes it exactly so, and does nothing where it is so already
 *   get     reads one
 *   list    fills an array (see below)
 *   delete, remove, attach, detach, open, close, read, run, apply: as they say
 * oxp_open(), oxp_close(), oxp_export(), oxp_export_part(),
 * oxp_handover_begin(), oxp_handover_end() and oxp_upgrade() stay as they are
 * in all versions: see "Another library takes over".
 *
 * Every call here has a caller in the product. What only tests need is in
 * tests/support/test_interface.h and not in the library that is installed.
 *
 * Conventions:
 *  - A number with a unit names it: _s, _ms, _ns, _bytes, or its comment does
 *    (packets per second). Fields called `reserved` are zero.
 *  - Addresses are 16 bytes in network order, IPv4 as ::ffff:a.b.c.d.
 *    Ports are numbers in host order.
 *  - Functions return 0 (or a count, where said) or a negative errno. `error`
 *    may be NULL; otherwise it points to OXP_ERROR_LENGTH bytes and holds one
 *    line of text after a failure.
 *  - Functions that fill an array ("list") return how many elements exist,
 *    which may be more than `capacity`; never more than `capacity` are
 *    written.
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
#define OXP_API_VERSION 12

#define OXP_ERROR_LENGTH 512
#define OXP_SLOTS_LIMIT 1048573 /* greatest table that can be asked for */
#define OXP_MEMBERS_MAX 4096    /* per service */
#define OXP_ALLOWED_MAX 65536   /* networks, per service */

#define OXP_UPLINKS_MAX 8
#define OXP_WEIGHT_MAX 256

/*
 * What happened to a packet. All but the first two are counted here:
 * forwarded packets are counted by service and member, and a packet that is
 * not ours must cost nothing. enumerations.h lists and describes them;
 * doc/source/contributor/forwarding.rst says when a packet meets which.
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

/* Stays as it is in all versions. */
struct oxp_options {
	const char *pin_directory; /* on a bpffs; created if missing */
	const char *lock_file;     /* one per node; created if missing */
	/* Sizes matter only when the state is created; 0 means the default. */
	uint32_t services_max; /* default 1024 */
	uint32_t members_max;  /* of all services; default 16 * services_max */
	uint32_t slots_max;    /* of one service; default OXP_SLOTS_LIMIT */
	uint32_t flows_max;    /* flows remembered while slots change owners;
				* a power of two, default 1048576, 8 bytes each */
	uint8_t create;        /* load and pin if nothing is there */
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

/* Opens the pinned state, or creates it. -ENOENT: nothing is there and
 * `create` is 0. -EPROTO: another layout version is pinned. -EPERM: `error`
 * names the capabilities that are needed. Other versions call it. */
int oxp_open(const struct oxp_options *options, struct oxp_node **node,
	     char *error);
/* Forgets the node; the kernel goes on forwarding. Other versions call it. */
void oxp_close(struct oxp_node *node);
int oxp_info_get(struct oxp_node *node, struct oxp_info *info, char *error);

/* Attaches the forwarding program to an interface of the caller's network
 * namespace, in the driver (native mode); it stays after the process ends.
 * If another one of the node is attached already, it is replaced by this
 * library's one without losing a packet; this library's own stays. */
int oxp_interface_attach(struct oxp_node *node, uint32_t ifindex, char *error);
/* -ENOENT if it was not attached. */
int oxp_interface_detach(struct oxp_node *node, uint32_t ifindex, char *error);

/* One uplink. Either next hop may be all zeroes: that of this family is not
 * known, and the uplink carries none of its packets. */
struct oxp_uplink {
	uint32_t ifindex; /* of the device below VLANs: what XDP runs on */
	uint16_t mtu;     /* greatest IP packet, bytes */
	uint8_t own_mac[6];
	uint8_t next_hop_mac_v4[6]; /* next hop of IPv4 outer packets */
	uint8_t next_hop_mac_v6[6]; /* next hop of IPv6 outer packets */
	uint8_t vlans;              /* 0 to 2 tags, outermost first: one is
				     * 802.1Q, of two the first is 802.1ad */
	uint8_t reserved;
	uint16_t vlan[2]; /* priority, DEI and id, host order */
};

/* Replaces all uplinks at once; a packet sees the old ones or the new ones.
 * A flow keeps its uplink while the usable uplinks stay the same. */
int oxp_uplinks_set(struct oxp_node *node, const struct oxp_uplink *uplinks,
		    uint32_t count, char *error);

enum oxp_node_flag {
	OXP_NODE_ECHO = 1, /* answer echo requests to VIPs */
	OXP_NODE_CLAMP_MSS =
		2, /* of clients' SYNs to what members' paths carry */
	OXP_NODE_PASS_TOO_BIG = 4, /* IPv4 without DF beyond the MTU goes to the
				    * stack in place of being dropped */
	OXP_NODE_FIB = 8 /* ask the kernel's routes for each packet: slow, for
			  * nodes where uplinks cannot say it */
};

struct oxp_node_settings {
	/* Outer source addresses; zeroes: none, members of that family get
	 * nothing. Of the low `entropy` bits the flow's hash takes the place,
	 * so that receivers spread flows over their queues. */
	struct oxp_address source_v4;
	struct oxp_address source_v6;
	uint8_t entropy_v4; /* 0 to 16 bits */
	uint8_t entropy_v6; /* 0 to 32 bits */
	uint16_t reserved;
	uint32_t flags; /* enum oxp_node_flag */
	/* Packets per second and CPU that the node answers itself, of each kind
	 * (echo requests, what is too big, what is reset); 0: none. One source
	 * is sent the eighth part of them at most. */
	uint32_t icmp_rate;
};

/* Each setting takes effect by itself, and a change of source_v6 is no single
 * store: for a moment a packet may leave with parts of the old and of the new
 * address in its outer source. Everything else is one word. */
int oxp_node_settings_set(struct oxp_node *node,
			  const struct oxp_node_settings *settings,
			  char *error);

/* How packets get to members: see enumerations.h. */
enum oxp_encapsulation {
#define OXP_ENCAPSULATION(name, number, shim, option, text) OXP_##name = number,
#include "enumerations.h"
};
#define OXP_GUE_PORT 6080
/* Bytes by which an outer header is longer that names an alternative
 * (OXP_SERVICE_SECOND_CHANCE), over IPv4 and IPv6. */
#define OXP_ALTERNATIVE_V4 12
#define OXP_ALTERNATIVE_V6 24
#define OXP_GENEVE_PORT 6081
#define OXP_VNI_MAX 16777215 /* keys of OXP_GENEVE have 24 bits */

enum oxp_service_flag {
	OXP_SERVICE_SOURCE = 1, /* a client's flows all go to one member */
	OXP_SERVICE_QUIC = 2, /* UDP: by QUIC connection ID where it is ours */
	/* TCP by GUE, Geneve or SRv6, without OXP_SERVICE_SOURCE: packets name
	 * a second member where the first may not have their flow */
	OXP_SERVICE_SECOND_CHANCE = 4,
	/* TCP and UDP: addresses and ports are rewritten in both directions,
	 * see "NAT" below; without OXP_SERVICE_SOURCE, OXP_SERVICE_QUIC,
	 * OXP_SERVICE_SECOND_CHANCE, tunnels, and with `encapsulation` 0 */
	OXP_SERVICE_NAT = 8,
	/* With a `connection_limit`: who is beyond it is sent a TCP reset */
	OXP_SERVICE_RESET = 16
};

#define OXP_NAT_FLOWS_MAX 16776960
/* Who shares ports: see `nat_group` of struct oxp_service_settings. */
#define OXP_NAT_GROUPS 256
/* Flows of one group whose handshake is not complete. */
#define OXP_NAT_HALF_OPEN_MAX 4088

struct oxp_network {
	struct oxp_address address;
	uint8_t length; /* prefix, of 128 or for IPv4 of 32 bits */
};

struct oxp_service_settings {
	uint32_t slots; /* prime, at most slots_max; 0: as its members need, see
			 * doc/source/contributor/tables.rst */
	uint32_t flags; /* enum oxp_service_flag */
	uint8_t encapsulation;    /* enum oxp_encapsulation */
	uint8_t dscp;             /* of OXP_DSCP: 1 to 63 */
	uint16_t sid_function;    /* of OXP_SRV6: takes the place of the last 16
				   * bits of the member's address; 0: none */
	uint8_t source_length_v4; /* of OXP_SERVICE_SOURCE: what counts as one
				   */
	uint8_t source_length_v6; /* client; 0: 32 and 128 */
	uint16_t idle_timeout_s;  /* without a packet, after which a flow may
				   * move to another member, 10 to 16000; 0: 350.
				   * With OXP_SERVICE_NAT when an established
				   * flow ends; 0: 7440 of TCP (RFC 5382), 300
				   * of UDP (RFC 4787) */
	uint32_t new_flow_rate;   /* flows per second that one source may open
				   * at the VIP's service; 0: no limit */
	uint32_t new_flow_burst;  /* 0: as new_flow_rate */
	const struct oxp_network *allowed; /* sources; NULL: everybody */
	uint32_t allowed_count;            /* at most OXP_ALLOWED_MAX */
	/* Of OXP_SERVICE_NAT. All services of a group, such as those of one
	 * tenant, draw on one share of the node's ports: a new flow is refused
	 * while they have `nat_flows` together, which is rounded up to a
	 * multiple of 256. 0: half of all ports. */
	uint32_t nat_flows; /* at most OXP_NAT_FLOWS_MAX */
	uint16_t nat_group; /* below OXP_NAT_GROUPS */
	uint16_t reserved;
	/* Of OXP_SERVICE_NAT, TCP: connections at once, at most; new ones
	 * beyond it are refused. 0: no limit. */
	uint32_t connection_limit;
	uint32_t reserved2;
};

/* How packets get to a member whose address they do not name. All zeroes: by
 * the service's encapsulation to the member's own address. */
struct oxp_tunnel {
	struct oxp_address address; /* destination of the outer header */
	uint32_t key;          /* of OXP_GENEVE: the VNI; of OXP_SRV6: the last
				* 32 bits of the SID, which are 0 in `address`
				* then; 0: none */
	uint8_t encapsulation; /* enum oxp_encapsulation but OXP_DSCP */
	uint8_t keeps_port; /* the member's port is a part of its name alone: at
			     * the end of the tunnel it is known what to write
			     */
	/* What is at the end takes packets that name an alternative: they do,
	 * with OXP_SERVICE_SECOND_CHANCE. OXP_GUE, OXP_GENEVE and OXP_SRV6. */
	uint8_t takes_alternative;
	uint8_t reserved;
};

struct oxp_member {
	/* With the port its name, unique within a service: slots, remembered
	 * flows and QUIC server IDs follow from it, and stay what they are when
	 * the tunnel changes. */
	struct oxp_address address;
	uint64_t
		check; /* id of the health check; 0: not monitored, always up */
	uint16_t weight; /* 0 to OXP_WEIGHT_MAX; 0: no new flows, others stay */
	uint16_t mtu;    /* of the path, outer packet; 0: the uplink's */
	uint8_t admin_up;
	uint8_t backup; /* takes flows while no other member can */
	uint16_t port;  /* takes the place of the service's in packets, TCP and
			 * UDP only; 0: that stays. What the member answers
			 * does not pass the node. */
	struct oxp_tunnel tunnel;
};

/* Makes the service exist with exactly these settings and members: packets
 * see all of the old service or all of the new one. What is known about the
 * health of members that stay is kept, and flows keep members that can take
 * them, unless OXP_SERVICE_SOURCE or its lengths change: flows then have other
 * slots. settings == NULL: all zeroes. *changed says
 * whether anything was written; may be NULL. -EINVAL and others: nothing was,
 * and `error` names the setting. */
int oxp_service_set(struct oxp_node *node, const struct oxp_key *key,
		    const struct oxp_service_settings *settings,
		    const struct oxp_member *members, uint32_t count,
		    uint8_t *changed, char *error);

/* One service of oxp_services_set(). */
struct oxp_wanted_service {
	struct oxp_key key;
	const struct oxp_service_settings *settings; /* NULL: all zeroes */
	const struct oxp_member *members;
	uint32_t count;
	/* out: */
	int32_t status; /* 0 or the negative errno of this service */
	uint8_t changed;
	uint8_t reserved[3];
};

/* oxp_service_set() for many services in one go: tables are computed in
 * parallel, those with equal members once, and packets are waited for at most
 * once. Each service is set whole or not at all; one that is refused does not
 * keep the others from being set. Returns how many changed, or the status of
 * the first that failed, and `error` is about that one. A key may be there
 * only once. */
int oxp_services_set(struct oxp_node *node, struct oxp_wanted_service *services,
		     uint32_t count, char *error);
/* Returns how many of the keys existed and are gone now. */
int oxp_services_delete(struct oxp_node *node, const struct oxp_key *keys,
			uint32_t count, char *error);

/* Totals over all CPUs since the service or member was created. Bytes are
 * those of the IP packets that clients sent, without our outer header. */
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
	/* a hash of all that oxp_members_list() says but for counters: if it
	 * is the same, so are the members */
	uint64_t members_state;
	struct oxp_service_settings settings; /* with allowed == NULL */
	struct oxp_counters counters;
	/* Packets for the service with an outcome OXP_DROP_…, all together,
	 * since it was created: those for which it was known when they were
	 * dropped. Not in `counters`. */
	uint64_t drops;
	/* Flows that are alive, as far as this node can know: a packet came in
	 * the last idle_timeout_s that did not open the flow, and the client
	 * has not ended it (FIN or RST, of SCTP SHUTDOWN or ABORT). Counted, or
	 * estimated from a part of all flows while there are many packets or
	 * flows; doc/source/contributor/statuses.rst says how well. 0 unless
	 * oxp_slots_age() is called. */
	uint32_t active_flows;
	/* Of a service with a connection_limit: connections that count for it
	 * now. */
	uint32_t open_connections;
	/* Of OXP_SERVICE_NAT, where active_flows is exact: what clients were
	 * sent, bytes of the IP packets as they left. 0 of others, whose
	 * answers do not pass the node. */
	uint64_t reply_packets;
	uint64_t reply_bytes;
};

/* The server ID of a member that QUIC servers put into their connection IDs
 * (draft-ietf-quic-load-balancers, plaintext, 4 bytes, config rotation
 * OXP_QUIC_CONFIG): the CRC-32C of the 16 bytes of its address, big endian; of
 * an address with several ports that of all but the lowest one is over the two
 * bytes of the port as well. */
#define OXP_QUIC_CONFIG 0
#define OXP_QUIC_SERVER_ID_LENGTH 4

struct oxp_member_state {
	struct oxp_address address;
	uint64_t check;
	uint16_t weight;
	uint16_t mtu;
	uint8_t admin_up;
	uint8_t backup;
	uint8_t healthy;         /* as reported, or as assumed */
	uint8_t known;           /* the health check has reported its result */
	uint8_t takes_flows;     /* may take new ones: up, with a weight, and
				  * no backup while others serve */
	uint16_t index;          /* within the service while it stays */
	uint32_t quic_server_id; /* see OXP_QUIC_CONFIG */
	struct oxp_counters counters;
	uint16_t port; /* 0: packets keep the service's */
	uint16_t reserved[3];
	struct oxp_tunnel tunnel; /* all zeroes: none of its own */
};

/* All services, in the order of their keys. Returns how many there are. */
int oxp_services_list(struct oxp_node *node, struct oxp_service *out,
		      uint32_t capacity, char *error);
/* One service. -ENOENT if it does not exist. */
int oxp_service_get(struct oxp_node *node, const struct oxp_key *key,
		    struct oxp_service *out, char *error);
/* Members in the order of their addresses, then ports. Returns how many there
 * are. */
int oxp_members_list(struct oxp_node *node, const struct oxp_key *key,
		     struct oxp_member_state *out, uint32_t capacity,
		     char *error);
/* The networks of settings.allowed. Returns how many there are. */
int oxp_networks_list(struct oxp_node *node, const struct oxp_key *key,
		      struct oxp_network *out, uint32_t capacity, char *error);
/* The lookup table: each slot's position in oxp_members_list(), or
 * OXP_NO_MEMBER in every slot. `before`, which may be NULL, gets where flows
 * go that began before the last change; the same as `out` in slots that are
 * not open. While the number of slots changes it is another one there: a flow
 * is at the same share of both. *before_slots, which may be NULL, gets that
 * number; no more than `capacity` elements of either are written. Returns the
 * number of slots. */
#define OXP_NO_MEMBER 65535
int oxp_table_get(struct oxp_node *node, const struct oxp_key *key,
		  uint16_t *out, uint16_t *before, uint32_t capacity,
		  uint32_t *before_slots, char *error);

struct oxp_health_result {
	uint64_t check;
	uint8_t up;
};

/* Takes results of health checks, in order, into every service whose members
 * carry these checks; each touched table is rebuilt once. Unknown checks are
 * ignored. Returns the number of tables that switched. */
int oxp_health_apply(struct oxp_node *node,
		     const struct oxp_health_result *results, uint32_t count,
		     char *error);

/* Ages the slots that are open, and closes those where no packet has gone to
 * another member than the slot's own for the service's idle timeout. To be
 * called about once a second by one process of the node; called more often it
 * does nothing, called late it only keeps slots open for longer. It also waits
 * for packets of updates before, so that the next ones need not, and decides
 * which flows are watched for oxp_service.active_flows. Returns the number of
 * open slots. */
int oxp_slots_age(struct oxp_node *node, char *error);

/* With which weight a member took new flows until its service's members that
 * do last changed, or one of the times before. */
struct oxp_past_weight {
	struct oxp_address address; /* with the port the member's name */
	uint16_t port;
	uint16_t weight; /* 0: it took none */
	uint32_t slots;  /* of the service until then; 0: as many as now */
	uint32_t age_s;  /* of the change */
};
#define OXP_HISTORY_MAX 1024

/* Tells a service that has not forwarded a packet here, and whose slots
 * therefore know no owners but those of now, what other nodes have seen: slots
 * are as if this node had made these changes so long ago, and no flow of an
 * earlier owner had sent anything since. `past` has the newest change first;
 * elements of one age are one change. Members that the service does not have
 * are left out; whatever it says, only members of the service get packets, and
 * new flows go where they went. Beyond a change of the number of slots nothing
 * is remembered. May be called again, as members' health becomes known.
 * Returns 1, or 0 where there was nothing to do: packets were forwarded
 * already, or flows are those of NAT. -EINVAL: nothing was done, and `error`
 * names the element. */
int oxp_history_apply(struct oxp_node *node, const struct oxp_key *key,
		      const struct oxp_past_weight *past, uint32_t count,
		      char *error);

/* Totals over all CPUs. Bytes are those of frames as they came in, from the
 * Ethernet header on: there may be no IP packet whose length is to be
 * believed. */
struct oxp_outcome_counters {
	uint64_t packets;
	uint64_t bytes;
};

/* out[i] is about packets with outcome i; `capacity` elements are written at
 * most. Returns OXP_OUTCOMES. */
int oxp_outcomes_list(struct oxp_node *node, struct oxp_outcome_counters *out,
		      uint32_t capacity, char *error);

/*
 * NAT (OXP_SERVICE_NAT): the client's packet goes to the member's address and
 * port, from an address and a port of the node's pools, and so the answer comes
 * back to the node, which rewrites it; doc/source/contributor/nat.rst. Members
 * are of either family, and need nothing but routes to the pools.
 */
#define OXP_NAT_ADDRESSES_MAX 256 /* of each family, in all pools */
#define OXP_NAT_PORT_MIN 1024     /* ports of each from here to 65535 */

/* Makes these the node's pools, and no others: prefixes that are routed to this
 * node alone, each address of which is used. Flows of addresses that are gone
 * are lost, those of others are not touched. Each address takes 8 MiB. Replaces
 * the program where there were no pools, or are none any more: those of other
 * nodes pay nothing for it. -EINVAL, -ENOSPC, -EEXIST (two prefixes overlap, or
 * an address is a VIP): nothing is changed, and `error` names the prefix. */
int oxp_nat_pools_set(struct oxp_node *node, const struct oxp_network *pools,
		      uint32_t count, char *error);
/* As they were set, in the order of their addresses. Returns how many there
 * are. */
int oxp_nat_pools_list(struct oxp_node *node, struct oxp_network *out,
		       uint32_t capacity, char *error);

/*
 * Where routers move a client's flow to another node, which knows nothing of
 * it: TCP packets of a flow of NAT that a node does not know, but for those
 * that open one, and ICMP errors about such, go to the other nodes in turn
 * until one knows the flow; from then on straight to that one. Peers are all
 * nodes that do so, each by one address of its pools, all of one family, in the
 * same order on all of them; one is this node's own. None: nothing is handed
 * on, nor taken. They are kept like services. -EINVAL, -EEXIST, -EAFNOSUPPORT,
 * -ENOENT (none is an address of this node's pools), -ENOSPC: nothing is
 * changed, and `error` names the peer. When the own address goes with its pool
 * nothing is handed on until it is back.
 */
#define OXP_NAT_PEERS_MAX 16
int oxp_nat_peers_set(struct oxp_node *node, const struct oxp_address *peers,
		      uint32_t count, char *error);
/* Returns how many there are. */
int oxp_nat_peers_list(struct oxp_node *node, struct oxp_address *out,
		       uint32_t capacity, char *error);

/*
 * No datagram says that its flow is under way elsewhere. So peers are asked for
 * those of unknown flows only while routers may move flows as planned: for so
 * many seconds (units of 2^30 ns) from now; 0: no more, which is also what a
 * new node does. It is kept like services, whether there are peers or not.
 * -EINVAL, more than OXP_NAT_SEEK_UDP_MAX: nothing is changed.
 */
#define OXP_NAT_SEEK_UDP_MAX 86400
int oxp_nat_seek_udp(struct oxp_node *node, uint32_t seconds, char *error);
/* How many are left, in *seconds. */
int oxp_nat_seek_udp_left(struct oxp_node *node, uint32_t *seconds,
			  char *error);

/* After so many seconds (units of 2^30 ns) without a packet flows end that are
 * not established; when those do is said by each service's idle_timeout_s. 0:
 * the default. */
#define OXP_NAT_TIMEOUT_MIN 10
#define OXP_NAT_TIMEOUT_MAX 16000
struct oxp_nat_timeouts {
	uint32_t tcp_opening_s; /* half open: 240 (RFC 5382) */
	uint32_t tcp_closing_s; /* after the first FIN, if idle_timeout_s is no
				 * less: 240 (RFC 5382) */
	uint32_t time_wait_s;   /* after FINs of both, or a RST: 60 */
	uint32_t udp_opening_s; /* half open: 120 (RFC 4787) */
};
/* They are kept like services, and hold at once, also for flows that are
 * there. -EINVAL: nothing is changed, and `error` names the one. */
int oxp_nat_timeouts_set(struct oxp_node *node,
			 const struct oxp_nat_timeouts *wanted, char *error);
/* As they are, without zeroes. */
int oxp_nat_timeouts_get(struct oxp_node *node, struct oxp_nat_timeouts *out,
			 char *error);

struct oxp_nat_usage {
	uint32_t addresses_v4, addresses_v6; /* of pools */
	uint32_t ports;                      /* of all addresses */
	uint32_t half_open; /* flows whose handshake is not complete */
	uint32_t established;
	uint32_t time_wait; /* ended, but the port is not given away yet */
};
/* Counted by looking at each flow. */
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
	uint32_t expires_s; /* it ends after so long without another one */
};

/* What a flow has to have; zeroes: any. */
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
/* The node's flows, in no order. Returns how many fit the filter, which may be
 * NULL. With client, client_port and the whole service, or pool and pool_port,
 * one look is enough; otherwise each flow is looked at. */
int oxp_nat_flows_list(struct oxp_node *node,
		       const struct oxp_nat_filter *filter,
		       struct oxp_nat_flow *out, uint32_t capacity,
		       char *error);

/*
 * Probes through the datapath. The health checker marks a probe to a VIP
 * (SO_MARK); a program where packets leave by the uplinks (tc, egress) gives it
 * the outer header that traffic to one member gets. Nothing of this exists on a
 * node until oxp_probes_set() is called, and it disturbs no other function.
 */

/* Marks that are ours: those with these upper 8 bits. */
#define OXP_PROBE_MARK 0x4f000000
#define OXP_PROBE_MARK_MASK 0xff000000
#define OXP_PROBES_MAX 1048576

/* What happened to a packet with such a mark: see enumerations.h. */
enum oxp_probe_outcome {
#define OXP_PROBE_OUTCOME(name, number, text) OXP_PROBE_##name = number,
#include "enumerations.h"
	OXP_PROBE_OUTCOMES
};

struct oxp_probe {
	uint32_t mark;
	struct oxp_address vip;
	struct oxp_address member;
	uint8_t encapsulation; /* these as in struct oxp_service_settings */
	uint8_t dscp;
	uint16_t sid_function;
	uint16_t port; /* of the member, as in struct oxp_member */
	uint16_t reserved;
	struct oxp_tunnel tunnel; /* likewise */
};

/* Makes these the targets of marks, and no others; those that stay as they are
 * are not touched. Marks must be unique. Nothing is changed if one of them is
 * refused. */
int oxp_probes_set(struct oxp_node *node, const struct oxp_probe *probes,
		   uint32_t count, char *error);
/* All targets, in the order of their marks. Returns how many there are; 0
 * also where there is nothing of this on the node. */
int oxp_probes_list(struct oxp_node *node, struct oxp_probe *out,
		    uint32_t capacity, char *error);
/* Attaches the program to an interface that probes leave by, with the VLAN
 * interface that the route names rather than the device below, in the caller's
 * network namespace. Other programs there stay. An interface that has it
 * already is left alone. -ENOENT: oxp_probes_set() was not called yet. */
int oxp_probe_attach(struct oxp_node *node, uint32_t ifindex, char *error);
/* Detaches the program from all interfaces of the caller's network namespace
 * and removes the targets. Returns 1, or 0 if there was nothing. */
int oxp_probes_remove(struct oxp_node *node, char *error);
/* counts[i] is the number of packets with outcome i; `capacity` elements are
 * written at most. Returns OXP_PROBE_OUTCOMES, or 0 where there is nothing of
 * this on the node. */
int oxp_probe_outcomes_list(struct oxp_node *node, uint64_t *counts,
			    uint32_t capacity, char *error);

/*
 * For the operator's tools: what is loaded, what it would do, what it does.
 * Nothing here changes the node.
 */

int oxp_node_settings_get(struct oxp_node *node, struct oxp_node_settings *out,
			  char *error);

/* Which uplink takes a flow is said by the top 6 bits of its entropy: an index
 * into the uplinks, or OXP_NO_CHOICE where the outer packet's family has no
 * uplink. */
#define OXP_NO_CHOICE 255
struct oxp_choices {
	uint8_t v4[64];
	uint8_t v6[64];
};
/* Returns the number of uplinks. */
int oxp_uplinks_list(struct oxp_node *node, struct oxp_uplink *out,
		     uint32_t capacity, struct oxp_choices *choices,
		     char *error);

/* The program of an interface that the node is attached to. */
struct oxp_program {
	uint32_t ifindex;
	uint32_t id;
	uint8_t tag[8]; /* the same for the same instructions */
	char name[16];
	uint64_t loaded_ns; /* CLOCK_BOOTTIME */
	/* while the kernel counts them: sysctl kernel.bpf_stats_enabled */
	uint64_t runs;
	uint64_t run_time_ns; /* of all runs */
};
/* Returns how many there are, in no order. */
int oxp_programs_list(struct oxp_node *node, struct oxp_program *out,
		      uint32_t capacity, char *error);

/* Something wrong in the tables; protocol 0: it is about no single service. */
struct oxp_fault {
	struct oxp_key key;
	char text[108];
};
/* Computes every table again, compares it with the kernel's, and names all
 * that differs. Returns how many faults there are. */
int oxp_faults_list(struct oxp_node *node, struct oxp_fault *out,
		    uint32_t capacity, char *error);

/* A frame to run a program with (BPF_PROG_TEST_RUN): nothing is sent. */
struct oxp_frame {
	const uint8_t
		*data; /* from the Ethernet header on, at least 14 bytes */
	uint32_t length;
	uint32_t ifindex; /* where it came in; 0: the loopback device */
	uint8_t *out;     /* gets the frame as it left, up to `capacity` bytes;
			   * may be `data`, or NULL */
	uint32_t capacity;
	/* out: */
	uint32_t out_length;
	uint32_t action; /* enum xdp_action */
	/* in: bytes of the frame's first buffer, at least 14, where it has
	 * several (since Linux 6.18); 0: a page less what the kernel needs */
	uint32_t first_bytes;
};
#define OXP_FRAME_MAX 16384

/*
 * A simulation: this library's program on the node's tables and on private
 * copies of all that packets change (flows, fragments, rates, counters), as
 * they are when it is opened. What one frame leaves in the copies the next
 * one finds; the node sees nothing of it. ICMP budgets begin full. Takes as
 * much memory as the node's flows and 20 MB.
 */
struct oxp_simulation;
/* The tag of its program in *tag: to be compared with oxp_programs_list(). */
int oxp_simulation_open(struct oxp_node *node,
			struct oxp_simulation **simulation, uint8_t tag[8],
			char *error);
/* Before its node. */
void oxp_simulation_close(struct oxp_simulation *simulation);
/* Runs one frame. outcomes[i] is how often it met outcome i. */
int oxp_simulation_run(struct oxp_simulation *simulation,
		       struct oxp_frame *frame, uint64_t outcomes[OXP_OUTCOMES],
		       char *error);

/* What of a packet selects its member; of an ICMP error the flow that it is
 * about, as its client would send it. */
struct oxp_packet {
	struct oxp_address source;
	struct oxp_address destination;
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t protocol;          /* behind IPv6 extension headers */
	uint8_t later;             /* fragment: it has no ports */
	uint8_t fragment_protocol; /* as the fragment's own header says */
	uint8_t reserved;
	uint32_t fragment_id; /* 16 bits of IPv4, 32 of IPv6 */
};

/* Members are named by oxp_member_state.index, or OXP_NO_MEMBER. */
struct oxp_selection {
	uint32_t slots;
	uint32_t slot;
	uint32_t entropy;
	uint32_t age_s; /* of the remembered flow, in units of 2^30 ns */
	uint16_t now;   /* of new flows */
	uint16_t before;
	uint16_t remembered; /* OXP_NO_MEMBER: the flow is not */
	uint8_t open;
	uint8_t confirmed; /* the remembered flow is */
	uint8_t learning;  /* unknown flows are taken for old ones */
	uint8_t changed;   /* with a second chance: `before` may have flows */
	uint8_t reserved[2];
};
/* Computes a packet's slot, and looks up what the simulation knows of its flow:
 * so before the packet is run. -ENOENT: no such service. */
int oxp_simulation_select(struct oxp_simulation *simulation,
			  const struct oxp_key *key,
			  const struct oxp_packet *packet,
			  struct oxp_selection *out, char *error);
/* Where the first fragment of the same packet went. -ENOENT: not known. */
int oxp_simulation_fragment_find(struct oxp_simulation *simulation,
				 const struct oxp_packet *packet,
				 struct oxp_key *service, uint16_t *member,
				 char *error);
/* The flows, in 1/1024, that a source may open now at a service with a
 * new_flow_rate. */
int oxp_simulation_tokens_get(struct oxp_simulation *simulation,
			      const struct oxp_key *key,
			      const struct oxp_address *source,
			      uint64_t *tokens, char *error);

/*
 * Watching packets of a VIP before and after the program. While a trace is
 * open, the kernel calls two more programs around each run; without one, the
 * forwarding program is not touched. It ends with the process at the latest.
 */
#define OXP_TRACE_SNAPLEN_MAX 3520
struct oxp_trace_options {
	struct oxp_address vip; /* destination of the packets that come in */
	uint32_t every; /* 1 in `every` packets of each CPU is kept; 0: 1 */
	uint32_t snaplen_bytes; /* of a frame that are kept; 0: 256 */
	uint32_t buffer_bytes;  /* for what is not read yet, rounded up to a
				 * power of two; 0: 4 MiB */
};

/* One side of a packet; `captured` bytes of the frame follow. */
struct oxp_trace_packet {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t number;  /* the same on both sides */
	uint32_t ifindex; /* where it came in */
	uint32_t queue;
	uint32_t length; /* of the frame */
	uint32_t captured;
	uint32_t action; /* enum xdp_action, once it went through */
	uint8_t out;     /* 0: as it came; 1: as the program left it */
	uint8_t reserved[3];
};

struct oxp_trace;
/* -ENOENT: the program is attached to no interface. */
int oxp_trace_open(struct oxp_node *node,
		   const struct oxp_trace_options *options,
		   struct oxp_trace **trace, char *error);
void oxp_trace_close(struct oxp_trace *trace);
/* Waits for packets, `timeout_ms` at most, and writes them one after the
 * other, each a struct oxp_trace_packet with the bytes of its frame, filled up
 * to a multiple of 8. Programs that were attached meanwhile are traced from
 * the next call on. Returns the bytes written, 0 after the time, -EINTR after
 * a signal. `capacity` is at least OXP_TRACE_ROOM. */
#define OXP_TRACE_ROOM 4096
int oxp_trace_read(struct oxp_trace *trace, uint8_t *out, uint32_t capacity,
		   int32_t timeout_ms, char *error);
/* Sides of packets for which the buffer had no room. */
uint64_t oxp_trace_lost_get(const struct oxp_trace *trace);

/*
 * Another library takes over, while packets flow. Between libraries of
 * different layouts goes a stream (lib/upgrade/stream.h), which is independent
 * of the layout. These functions, oxp_open(), oxp_close() and struct
 * oxp_options stay as they are in all versions: each library calls those of
 * the other one, and oxp_upgrade() and struct oxp_upgrade are what the tool
 * uses of a library of whichever version a node changes to.
 */

/* Writes all that is wanted and known of the node: settings, uplinks,
 * services, members and their health, tables with open slots, remembered
 * flows, counters. Not: fragments and rates of sources. */
int oxp_export(struct oxp_node *node, int fd, char *error);

/* A part of it, for what packets have written since; services come with it
 * as far as needed to say whose counters it has. */
enum oxp_part {
	OXP_PART_ALL,
	OXP_PART_FLOWS,
	OXP_PART_COUNTERS /* and ages of open slots */
};
int oxp_export_part(struct oxp_node *node, int fd, enum oxp_part part,
		    char *error);

/* Locks the node until oxp_handover_end(), which the same thread has to call;
 * of the functions here only oxp_export() may be called in between.
 * *lock_file: the lock's descriptor, of whose copies each holds the lock.
 * A process that dies in between leaves what the next one repairs. */
int oxp_handover_begin(struct oxp_node *node, int *lock_file, char *error);
/* taken: the pinned state is another one now, and this one is stale for
 * whoever has it open. Otherwise what was begun is taken back: all interfaces
 * run a program of this library on these tables. */
int oxp_handover_end(struct oxp_node *node, uint8_t taken, char *error);

struct oxp_upgrade_interface {
	uint32_t ifindex;
	uint8_t tag_before[8]; /* of its program */
	uint8_t changes;       /* 0: it has this library's program already */
	uint8_t reserved[3];
};

#define OXP_UPGRADE_INTERFACES 64
struct oxp_upgrade {
	uint32_t layout_before;
	uint32_t layout_after;
	uint8_t tag_after[8]; /* of the program of all interfaces */
	uint32_t services;
	uint32_t members;
	uint32_t interfaces; /* that have a program of the node */
	struct oxp_upgrade_interface interface[OXP_UPGRADE_INTERFACES];
	uint32_t maps_new;    /* made beside the old ones */
	uint32_t maps_handed; /* that both use: nothing in them is copied */
	uint64_t map_bytes;   /* of the new ones: needed until the old go */
	uint8_t changes;      /* 0: all is as this library wants it already */
	uint8_t reserved[7];
};

/* Puts this library's program and layout in the place of whatever is pinned.
 * All new maps are made and filled beside the old ones; each interface then
 * changes to the new program in one step, and the new pins take the place of
 * the old ones in one step. Before that one any failure or death leaves the
 * old state in force. `from`: the library of the pinned layout, when it is
 * another one; NULL: liboctavia_xdp.so.<layout> in this library's folder, or
 * where the dynamic loader finds it. dry_run: everything but the changes. */
int oxp_upgrade(const struct oxp_options *options, const char *from,
		uint8_t dry_run, struct oxp_upgrade *out, char *error);

#ifdef __cplusplus
}
#endif

#endif
