/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An address of either family in the maps of members and hypervisors. */
#ifndef OXP_IP_ADDRESS_H
#define OXP_IP_ADDRESS_H

#include <linux/types.h>

/* In network byte order, IPv4 as ::ffff:a.b.c.d. */
struct ip_address {
	__u8 bytes[16];
};

#endif
