/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A VM's replies that do not fit the interface by which they leave: tells the
 * VM the size that does (RFC 1191, RFC 8201), from the client, in the VM's
 * view.
 *
 *   before   | link | VM -> client ...
 *   after    | link | client -> VM | ICMP, 8 bytes | VM -> client, cut
 */
#ifndef OXP_HOST_TOO_BIG_H
#define OXP_HOST_TOO_BIG_H

#include "host/count.h"
#include "host/flows.h"
#include "host/packet.h"
#include "icmp_too_big.h"
#include "martian_source.h"

/* The MTU that the packet exceeds; 0: it fits, or the kernel does not tell. */
__noinline __u32 exceeded_mtu(struct __sk_buff *skb, __u32 ifindex)
{
	__u32 mtu = 0;
	long status = bpf_check_mtu(skb, ifindex, &mtu, 0, BPF_MTU_CHK_SEGS);

	if (status < 0)
		return 0;
	/* The helper assumes the link header of the other interface. */
	if (skb->gso_size)
		return status == BPF_MTU_CHK_RET_SEGS_TOOBIG ? mtu : 0;
	return skb->len - ETH_HLEN > mtu ? mtu : 0;
}

/* Limits messages per VM and unit of time, so that VMs do not affect each
 * other. CPUs that count at once may let a few more through. */
static __always_inline bool may_tell(struct host_port *port)
{
	__u32 now = now_in_units();

	if (READ_ONCE(port->answers_at) != now) {
		WRITE_ONCE(port->answers_at, now);
		WRITE_ONCE(port->answers, 0);
	}
	if (READ_ONCE(port->answers) >= HOST_ANSWERS_MAX)
		return false;
	WRITE_ONCE(port->answers, port->answers + 1);
	return true;
}

/* Whether ICMP may be sent about the packet, and the sender requested it. */
__noinline int may_be_told(struct __sk_buff *skb,
			   const struct host_packet *packet, __u32 mtu)
{
	const struct transport *transport;
	__be16 fragment;

	if (!packet || packet->error || packet->transport.later)
		return false;
	transport = &packet->transport;
	if (transport->version == 6)
		return !is_martian_v6((const void *)&transport->destination,
				      (const void *)&transport->source);
	if (mtu < LIMIT_V4 ||
	    bpf_skb_load_bytes(skb, packet->ip + 6, &fragment,
			       sizeof(fragment)) ||
	    !(fragment & bpf_htons(IP_DONT_FRAGMENT)) ||
	    fragment & bpf_htons(IP_MORE_FRAGMENTS))
		return false;
	return !is_martian_v4(last_word(&transport->destination),
			      last_word(&transport->source));
}

#define CHUNK 64

/* The sum of `length` bytes at `offset`; 0xffffffff: they do not exist. */
__noinline __u32 sum_of_skb(struct __sk_buff *skb, __u32 offset, __u32 length)
{
	__u32 sum = 0;

	for (__u32 i = 0; i <= QUOTE_V6 / CHUNK; i++) {
		__u32 part = length > CHUNK ? CHUNK : length;
		__u8 bytes[CHUNK] = {};
		__s64 next;

		if (!part)
			break;
		if (bpf_skb_load_bytes(skb, offset, bytes, part))
			return 0xffffffff;
		next = bpf_csum_diff(NULL, 0, (void *)bytes, CHUNK, sum);
		if (next < 0)
			return 0xffffffff;
		sum = fold((__u32)next);
		offset += part;
		length -= part;
	}
	return sum;
}

/*
 * Whether the device has to compute the transport's checksum. The helper that
 * corrects checksums knows, and leaves such a checksum unchanged.
 */
static __always_inline int is_sum_left(struct __sk_buff *skb, __u32 at,
				       __be16 was)
{
	__be16 now;

	if (bpf_l4_csum_replace(skb, at, 0, 1, sizeof(now)) ||
	    bpf_skb_load_bytes(skb, at, &now, sizeof(now)))
		return -1;
	if (now == was)
		return true;
	return bpf_skb_store_bytes(skb, at, &was, sizeof(was), 0) ? -1 : false;
}

/*
 * The sum of `quote` bytes of the packet, for the checksum of the error that
 * quotes them. If a device computes the transport's checksum, it does so for
 * what is left of the packet: the sum of transport header and data then offsets
 * the field's present value, whatever they are. 0xffffffff: unknown.
 */
__noinline __u32 sum_of_quote(struct __sk_buff *skb,
			      const struct host_packet *packet, __u32 quote)
{
	__u32 at, front;
	__be16 check;
	int left = 0;

	if (!packet)
		return 0xffffffff;
	at = checksum_offset(packet->transport.protocol,
			     packet->transport.version == 6);
	if (at) {
		at += packet->transport.offset;
		if (at + sizeof(check) > packet->ip + quote)
			at = 0; /* after many headers */
	}
	if (at) {
		if (bpf_skb_load_bytes(skb, at, &check, sizeof(check)))
			return 0xffffffff;
		/* 0: UDP without a checksum */
		if (check)
			left = is_sum_left(skb, at, check);
	}
	if (left < 0)
		return 0xffffffff;
	if (!left)
		return sum_of_skb(skb, packet->ip, quote);
	front = sum_of_skb(skb, packet->ip,
			   packet->transport.offset - packet->ip);
	if (front == 0xffffffff)
		return front;
	return fold(front + (__u16)~check);
}

union too_big_headers {
	__u32 word[TOO_BIG_V6_HEADERS / 4];
	__u8 bytes[TOO_BIG_V6_HEADERS];
};

/* Makes room in front of the quote and writes the headers there. */
static __always_inline int write_answer(struct __sk_buff *skb,
					const union too_big_headers *headers,
					const bool v6)
{
	const __u32 size = v6 ? TOO_BIG_V6_HEADERS : TOO_BIG_V4_HEADERS;
	struct ethhdr ethernet;
	__u8 was[ETH_ALEN];

	if (bpf_skb_load_bytes(skb, 0, &ethernet, sizeof(ethernet)))
		return -1;
	__builtin_memcpy(was, ethernet.h_dest, ETH_ALEN);
	__builtin_memcpy(ethernet.h_dest, ethernet.h_source, ETH_ALEN);
	__builtin_memcpy(ethernet.h_source, was, ETH_ALEN);
	if (bpf_skb_adjust_room(skb, size, BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_store_bytes(skb, 0, &ethernet, sizeof(ethernet), 0))
		return -1;
	return bpf_skb_store_bytes(skb, ETH_HLEN, headers->bytes, size,
				   BPF_F_RECOMPUTE_CSUM);
}

/* 0: the frame is now ICMP. Otherwise it is corrupt. */
__noinline int make_answer(struct __sk_buff *skb,
			   const struct host_packet *packet, __u32 mtu)
{
	union too_big_headers headers = {};
	__u32 quote, sum;
	__u64 pseudo;
	bool v6;

	if (!packet)
		return -1;
	v6 = packet->transport.version == 6;
	quote = v6 ? QUOTE_V6 : QUOTE_V4;
	if (quote > packet->length)
		quote = packet->length;
	/* several segments become one packet */
	if (bpf_skb_change_tail(skb, ETH_HLEN + quote, 0))
		return -1;
	sum = sum_of_quote(skb, packet, quote);
	if (sum == 0xffffffff)
		return -1;
	if (v6) {
		write_too_big_v6(headers.word, quote,
				 (const void *)&packet->transport.destination,
				 (const void *)&packet->transport.source,
				 mtu < LIMIT_V6 ? LIMIT_V6 : mtu);
		pseudo = pseudo_sum_v6(headers.word, quote);
		headers.word[10] |=
			(__u32)(__u16)~fold(pseudo + headers.word[10] +
					    headers.word[11] + sum)
			<< 16;
		return write_answer(skb, &headers, true);
	}
	write_too_big_v4(headers.word, quote,
			 last_word(&packet->transport.destination),
			 last_word(&packet->transport.source), mtu);
	headers.word[5] |= (__u32)(__u16)~fold((__u64)headers.word[5] +
					       headers.word[6] + sum)
			   << 16;
	return write_answer(skb, &headers, false);
}

/* Returns TO_BE_DECIDED for a packet that fits, with nothing changed. */
__noinline int answer_if_too_big(struct __sk_buff *skb,
				 const struct host_packet *packet,
				 const struct seen *seen, __u32 ifindex)
{
	__u32 mtu = exceeded_mtu(skb, ifindex);
	struct host_port *port;

	if (!mtu)
		return TO_BE_DECIDED;
	if (!packet || !seen)
		return TC_ACT_SHOT;
	port = ports_at(seen->host_port);
	if (!port || !may_be_told(skb, packet, mtu) || !may_tell(port) ||
	    make_answer(skb, packet, mtu))
		return drop(skb, seen, HOST_DROP_TOO_BIG);
	count(HOST_SENT_TOO_BIG);
	trace_if_wanted(skb, seen, HOST_SENT_TOO_BIG);
	skb->mark = HOST_MARK;
	return bpf_redirect(skb->ifindex, 0);
}

#endif
