/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sources that no client can have. */
#ifndef OXP_MARTIAN_SOURCE_H
#define OXP_MARTIAN_SOURCE_H

#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "likely.h"

/* 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/3. */
static __always_inline bool is_martian_v4(__be32 source, __be32 destination)
{
	__u32 first = source & 0xff;

	return first - 1 >= 223 || first == 127 || source == destination;
}

/* ::, ::1, ff00::/8, ::ffff:0:0/96. */
static __always_inline bool is_martian_v6(const __be32 *source,
					  const __be32 *destination)
{
	const __u64 *from = (const __u64 *)source;
	const __u64 *to = (const __u64 *)destination;

	if (unlikely(!from[0])) {
		if (source[2] == bpf_htonl(0xffff))
			return true;
		if (!source[2] && (!source[3] || source[3] == bpf_htonl(1)))
			return true;
	}
	return (source[0] & 0xff) == 0xff ||
	       (from[0] == to[0] && from[1] == to[1]);
}

#endif
