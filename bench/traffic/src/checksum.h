/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One's complement sums, RFC 1071. Own code, not the data path's, which is
 * what is measured. */
#ifndef OXT_CHECKSUM_H
#define OXT_CHECKSUM_H

#include <stdint.h>

/* Of a sum of 32-bit words as they lie in memory; never 0, which UDP has for
 * "none" (RFC 768) and which is the same as 0xffff elsewhere. */
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
