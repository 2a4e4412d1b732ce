/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the member's program and its tool share. */
#ifndef OXP_MEMBER_H
#define OXP_MEMBER_H

#define MEMBER_ADDRESSES_MAX 256
#define MEMBER_PROGRAM "oxp_member" /* as the kernel shows it */

enum member_counter {
	MEMBER_DECAPSULATED,
	MEMBER_MALFORMED, /* to one of our addresses, dropped */
	MEMBER_COUNTERS,
};

#endif
