/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps and nothing else: the forwarding program takes this file's place. */
#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int oxp_forward(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}
