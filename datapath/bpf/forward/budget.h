/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Budgets for the node's own replies: by kind, per CPU and second (of 2^30 ns),
 * of which a source may use a part. Pings thus do not keep others from learning
 * an MTU, and one client does not starve the others.
 */
#ifndef OXP_BUDGET_H
#define OXP_BUDGET_H

#include "flow_time.h"
#include "forward/parse.h"
#include "forward/record.h"
#include "maps.h"

static __always_inline __u32 answers_now(struct answers_sent *sent, __u32 now)
{
	if (sent->time != now) {
		sent->time = now;
		sent->packets = 0;
	}
	return sent->packets;
}

/* `kind` is an enum answer; `who` is from answered_v4() or answered_v6(). */
static __always_inline bool may_answer(__u32 kind, __u64 who)
{
	struct answer_budget *budget = bpf_map_lookup_elem(&icmp_budget, &kind);
	__u64 rate = config.icmp_rate;
	struct answers_sent *own;
	__u32 now = units_now();

	if (!budget)
		return false;
	own = &budget->to_source[answer_source(who, node_seed)];
	if (answers_now(own, now) >= (rate + ANSWER_SHARE - 1) / ANSWER_SHARE ||
	    answers_now(&budget->to_all, now) >= rate) {
		RECORD(ANSWER, rate, false);
		return false;
	}
	RECORD(ANSWER, rate, true);
	own->packets++;
	budget->to_all.packets++;
	return true;
}

/* The first 64 bits of a source: an IPv6 host may have any number of addresses
 * in its network. */
static __always_inline __u64 answered_v6(const __be32 *source)
{
	return (__u64)source[0] << 32 | source[1];
}

static __always_inline __u64 answered_v4(__be32 source)
{
	return source;
}

static __always_inline __u64 answered(const struct packet *packet)
{
	return packet->v6 ? answered_v6(packet->source)
			  : answered_v4(packet->source[3]);
}

/* The sender of the packet at l3. */
static __always_inline __u64 answered_at(struct xdp_md *ctx, __u32 l3, bool v6)
{
	const struct ipv6hdr *six;
	const struct iphdr *four;

	if (v6) {
		six = at(ctx, l3, sizeof(*six));
		return six ? answered_v6((const __be32 *)&six->saddr) : 0;
	}
	four = at(ctx, l3, sizeof(*four));
	return four ? answered_v4(four->saddr) : 0;
}

/* Returns the frame to its sender; VLAN tags stay. */
static __always_inline void swap_macs(struct ethhdr *ethernet)
{
	__u16 *word = (__u16 *)ethernet;

	for (int i = 0; i < 3; i++) {
		__u16 other = word[i];

		word[i] = word[i + 3];
		word[i + 3] = other;
	}
}

#endif
