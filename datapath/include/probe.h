/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps of the program that sends probes the way traffic is sent, shared with
 * the library. They are pinned in <pin directory>/probes-<layout> while a node
 * uses them. All their content can be written again, so another layout simply
 * uses another folder.
 *   targets   HASH           mark -> struct probe_target
 *   tokens    HASH           address, 16 bytes -> mark of the target
 *   token_networks  LPM_TRIE struct token_network -> __u8, unused
 *   outcomes  PERCPU_ARRAY   __u64 packets by enum oxp_probe_outcome
 * Outer source addresses are in the map `config` of layout.h.
 */
#ifndef OXP_PROBE_H
#define OXP_PROBE_H

#include <linux/types.h>

#include "octavia_xdp.h"

#define PROBES_FOLDER "probes-3"
#define PROBES_FOLDER_NEW "probes-3-new"
#define PROBES_PROGRAM "oxp_probe"

/* Addresses in network order, IPv4 as ::ffff:a.b.c.d. */
struct probe_target {
	__be32 vip[4];      /* probes to other destinations are not sent */
	__be32 outer[4];    /* destination of the outer header, or rewritten */
	__be32 member[4];   /* as given to the library */
	__u8 outer_type;    /* enum outer_type of layout.h, with OUTER_PORT */
	__u8 dscp;          /* with OUTER_NONE */
	__u8 encapsulation; /* enum oxp_encapsulation */
	__u8 tunnel;        /* as in struct block_member */
	__u16 sid_function;
	__be16 port; /* of the member; 0: the probe's is unchanged */
	__u32 key;   /* of the tunnel */
	__u8 keeps_port;
	__u8 is_token;
	__u8 reserved[2];
};

struct token_network {
	__u32 bits; /* prefix length, of 128; host byte order */
	__be32 address[4];
};

#endif
