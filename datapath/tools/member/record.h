/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool's record of a setup: the only entry of the map `record`, which is
 * bound to the programs. It exists exactly as long as they do, belongs to their
 * network namespace, and is replaced together with them.
 */
#ifndef MEMBER_RECORD_H
#define MEMBER_RECORD_H

#include <stdint.h>

#include "member.h"

/* Increase with any change of struct settings; struct undo never changes. */
#define RECORD_VERSION 1
#define RECORD_MAP "record"

enum mode {
	MODE_XDP,
	MODE_GENERIC,
	MODE_TC
};

enum settings_flag {
	ANY_SOURCE = 1,
	NO_ADDRESS = 2, /* do not put VIPs on lo */
	SET_SYSCTL = 4,
	OWN_GIVEN = 8, /* otherwise: the interface's */
	MSS_GIVEN = 16,
};

struct port_rule {
	struct member_port_key key;
	__be16 local;
	__u8 answers_only; /* packets arrive with `local` */
	__u8 reserved;
};

struct dscp_rule {
	__u32 dscp;
	struct ip_address vip;
};

/* Lists are sorted and without duplicates: equal settings have equal bytes. */
struct settings {
	__u32 mode; /* enum mode */
	__u32 flags;
	__u16 mss_v4, mss_v6; /* 0: not clamped */
	__u32 vips, owns, nodes, ports, dscps;
	struct ip_address vip[MEMBER_VIPS_MAX];
	struct ip_address own[MEMBER_OWN_MAX];
	struct member_network node[MEMBER_NODES_MAX];
	struct port_rule port[MEMBER_PORTS_MAX];
	struct dscp_rule dscp[2 * MEMBER_DSCPS];
	__u32 members;
	struct member_network member[MEMBER_NODES_MAX];
	__u32 vip_networks;
	struct member_network vip_network[MEMBER_VIP_NETWORKS_MAX];
};

enum sysctl {
	ARP_IGNORE,
	ARP_ANNOUNCE,
	RP_FILTER,
	SYSCTLS
};

/* What to restore. */
struct undo {
	__u32 clsact; /* the qdisc did not exist */
	struct {
		__u32 changed;
		__s32 value;
	} sysctl[SYSCTLS];
};

struct record {
	__u32 version;
	struct undo undo;
	struct settings settings;
};

#endif
