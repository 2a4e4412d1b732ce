/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet's way through a load balancer node, on one page. */
#include "count.h"
#include "encap.h"
#include "maps.h"
#include "parse.h"
#include "select.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int oxp_forward(struct xdp_md *ctx)
{
	enum oxp_outcome outcome;
	struct packet packet;
	struct target target;
	__u32 *service;

	outcome = parse(ctx, &packet);
	if (outcome == OXP_PASS)
		return XDP_PASS;
	/* Without ports the address decides whose packet it is: what is not
	 * for a VIP is not ours to drop. */
	if (outcome != OXP_FORWARDED)
		return is_vip(packet.destination) ? drop(outcome) : XDP_PASS;

	service = find_service(&packet);
	if (!service)
		return XDP_PASS;
	target.service = *service;

	outcome = select_member(&packet, &target);
	if (outcome != OXP_FORWARDED)
		return drop(outcome);
	outcome = encapsulate(ctx, &packet, target.address);
	if (outcome != OXP_FORWARDED)
		return drop(outcome);
	return forwarded(&packet, &target);
}
