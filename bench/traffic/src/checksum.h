/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ones' complement sums, RFC 1071. Not shared with the datapath, which is
 * under test. */
#ifndef OXT_CHECKSUM_H
#define OXT_CHECKSUM_H

#include <stdint.h>

/* Returns the checksum for a sum of 32-bit words in memory order; never 0,
 * which means "none" for UDP (RFC 768) and equals 0xffff elsewhere. */
static inline uint16_t checksum_of(uint64_t sum)
{
	uint16_t checksum;

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	checksum = ~sum;
	return checksum ? checksum : 0xffff;
}

#endif
