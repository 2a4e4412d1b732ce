/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* allowed_cidrs: the block that the packet reads names its set of networks, so
 * that they change together with all else. */
#ifndef OXP_ALLOW_H
#define OXP_ALLOW_H

#include "forward/parse.h"

static __always_inline bool is_allowed(const struct packet *packet, __u32 set)
{
	if (packet->v6) {
		struct allowed_v6 key = {
			.length = 32 + 128,
			.set = bpf_htonl(set),
			.address = {packet->source[0], packet->source[1],
				    packet->source[2], packet->source[3]},
		};

		return bpf_map_lookup_elem(&allowed_v6, &key) != NULL;
	} else {
		struct allowed_v4 key = {
			.length = 32 + 32,
			.set = bpf_htonl(set),
			.address = packet->source[3],
		};

		return bpf_map_lookup_elem(&allowed_v4, &key) != NULL;
	}
}

#endif
