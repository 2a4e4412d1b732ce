/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that do not fit the path to the member: tells the client the size
 * that does, from the VIP, back by the way the packet came (RFC 1191, RFC
 * 8201).
 *
 *   before   | link | client -> VIP ...
 *   after    | link | VIP -> client | ICMP, 8 bytes | client -> VIP, cut
 */
#ifndef OXP_TOO_BIG_H
#define OXP_TOO_BIG_H

#include "checksum.h"
#include "forward/budget.h"
#include "forward/drop.h"
#include "forward/parse.h"
#include "forward/record.h"
#include "icmp_too_big.h"

/* The sum of `length` bytes at `offset`, in whichever buffers of the frame,
 * rounded up to a multiple of 4. */
__noinline __u64 sum_of(struct xdp_md *ctx, __u32 offset, __u32 length)
{
	__u64 sum = 0;

	for (__u32 i = 0; i < (8 + QUOTE_V6) / 4; i++) {
		__u32 word;

		if (4 * i >= length ||
		    bpf_xdp_load_bytes(ctx, offset + 4 * i, &word, 4))
			break;
		sum += word;
	}
	return sum;
}

/* Moves the link header to the start of the frame, which has grown by `room`.
 */
static __always_inline bool move_link(struct xdp_md *ctx, __u32 l3, __u32 room)
{
	__u16 *to = at(ctx, 0, LINK_MAX), *from = at(ctx, room, LINK_MAX);

	if (!to || !from)
		return false;
	for (__u32 i = 0; i < LINK_MAX / 2; i++)
		if (2 * i < l3)
			to[i] = from[i];
	swap_macs((struct ethhdr *)to);
	return true;
}

/* Clears the bytes after the quote that are part of the checksum's last word.
 * If the frame ends before them it is extended; the excess is cut off later. */
static __always_inline bool clear_behind(struct xdp_md *ctx, __u32 offset)
{
	__u32 zero = 0;

	if (!bpf_xdp_store_bytes(ctx, offset, &zero, 3))
		return true;
	return !bpf_xdp_adjust_tail(ctx, 3) &&
	       !bpf_xdp_store_bytes(ctx, offset, &zero, 3);
}

/* Makes room for `headers` bytes in front of the packet, which becomes the
 * quote. Returns its header of `size` bytes, or NULL. */
static __always_inline const void *begin_answer(struct xdp_md *ctx, __u32 l3,
						__u32 headers, __u32 size)
{
	if (bpf_xdp_adjust_head(ctx, -(int)headers) ||
	    !move_link(ctx, l3, headers))
		return NULL;
	return at(ctx, l3 + headers, size);
}

static __always_inline bool cut_frame(struct xdp_md *ctx, __u32 length)
{
	return !bpf_xdp_adjust_tail(ctx, (int)(length - frame_length(ctx)));
}

static __always_inline bool answer_v4(struct xdp_md *ctx, __u32 l3, __u32 limit)
{
	const struct iphdr *quoted;
	__u32 quote, l4 = l3 + 20;
	__u32 *word;

	quoted = begin_answer(ctx, l3, 28, sizeof(*quoted));
	if (!quoted)
		return false;
	quote = bpf_ntohs(quoted->tot_len);
	if (quote > QUOTE_V4)
		quote = QUOTE_V4;
	if (!clear_behind(ctx, l3 + 28 + quote))
		return false;
	word = at(ctx, l3, 28 + sizeof(*quoted));
	if (!word)
		return false;
	/* from the VIP */
	write_too_big_v4(word, quote, word[7 + 4], word[7 + 3], limit);
	word[5] |= (__u32)(__u16)~fold(sum_of(ctx, l4, 8 + quote)) << 16;
	return cut_frame(ctx, l4 + 8 + quote);
}

static __always_inline bool answer_v6(struct xdp_md *ctx, __u32 l3, __u32 limit)
{
	const struct ipv6hdr *quoted;
	__u32 quote, l4 = l3 + 40;
	__u32 *word;
	__u64 sum;

	quoted = begin_answer(ctx, l3, 48, sizeof(*quoted));
	if (!quoted)
		return false;
	quote = bpf_ntohs(quoted->payload_len) + sizeof(*quoted);
	if (quote > QUOTE_V6)
		quote = QUOTE_V6;
	if (!clear_behind(ctx, l3 + 48 + quote))
		return false;
	word = at(ctx, l3, 48 + sizeof(*quoted));
	if (!word)
		return false;
	/* from the VIP */
	write_too_big_v6(word, quote, word + 12 + 6, word + 12 + 2, limit);
	sum = pseudo_sum_v6(word, quote) + sum_of(ctx, l4, 8 + quote);
	word[10] |= (__u32)(__u16)~fold(sum) << 16;
	return cut_frame(ctx, l4 + 8 + quote);
}

enum too_big_what {
	TOO_BIG_V6 = 1,
	TOO_BIG_SILENT = 2, /* ICMP errors, and later fragments */
	TOO_BIG_QUOTED = 4, /* ICMP errors */
};

/* For a packet at l3 with more than `limit` bytes. Returns the XDP action; with
 * XDP_DROP the frame is unchanged. The caller counts the drop for the service:
 * one more call from here would exceed the stack. */
__noinline int too_big(struct xdp_md *ctx, __u32 l3, __u32 limit, __u32 what)
{
	__be16 fragment = 0;
	__u32 bytes;
	bool sent;

	if (!(what & TOO_BIG_V6)) {
		const struct iphdr *ip = at(ctx, l3, sizeof(*ip));

		if (!ip)
			return drop(ctx, OXP_DROP_INTERNAL);
		fragment = ip->frag_off;
		if (!(fragment & bpf_htons(IP_DONT_FRAGMENT)) &&
		    !(what & TOO_BIG_QUOTED)) {
			RECORD(TOO_BIG, 0);
			if (!(config.flags & OXP_NODE_PASS_TOO_BIG))
				return drop(ctx, OXP_DROP_TOO_BIG);
			count(ctx, OXP_PASSED_TOO_BIG);
			return XDP_PASS;
		}
		if (fragment & bpf_htons(IP_MORE_FRAGMENTS))
			what |= TOO_BIG_SILENT;
		if (limit < LIMIT_V4)
			what |= TOO_BIG_SILENT;
	} else if (limit < LIMIT_V6) {
		limit = LIMIT_V6;
	}
	RECORD(TOO_BIG, what & (TOO_BIG_SILENT | TOO_BIG_QUOTED) ? 0 : limit);
	if (what & (TOO_BIG_SILENT | TOO_BIG_QUOTED) ||
	    !may_answer(ANSWER_TOO_BIG,
			answered_at(ctx, l3, what & TOO_BIG_V6)))
		return drop(ctx, OXP_DROP_TOO_BIG);
	/* the frame changes from here on */
	bytes = frame_length(ctx);
	sent = what & TOO_BIG_V6 ? answer_v6(ctx, l3, limit)
				 : answer_v4(ctx, l3, limit);
	if (!sent) {
		/* usually for lack of room, with the frame unchanged */
		count_bytes(OXP_DROP_NO_HEADROOM, bytes);
		return XDP_DROP;
	}
	count_bytes(OXP_SENT_TOO_BIG, bytes);
	return XDP_TX;
}

/* For the packets that count_plain_drop() takes. */
COLD int too_big_plain(struct xdp_md *ctx, __u32 l3, __u32 limit, __u32 what)
{
	int action = too_big(ctx, l3, limit, what);

	if (action == XDP_DROP)
		count_plain_drop(ctx);
	return action;
}

#endif
