/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about NAT flows (RFC 5508; between families RFC 7915). What the
 * quote has after its ports stays in place; if the families differ, everything
 * in front of it is rebuilt:
 *
 *   before   | link | IP | ICMP, 8 bytes | quoted IP | ports ...
 *
 * packet->l3 is the outer header, packet->l4 the ICMP message.
 */
#ifndef OXP_NAT_ERROR_H
#define OXP_NAT_ERROR_H

#include "forward/icmp.h"
#include "forward/nat/header.h"
#include "forward/nat/transport.h"

#define NO_EQUIVALENT (-1)
/* Type and code of a message as in its first word. */
#define ICMP_WORD(type, code) ((type) | (code) << 8)

#define ICMPV6_PTR_NEXT_HEADER 6

/* Pointers of parameter problems: RFC 7915, 4.2, figure 3; 5.2, figure 6. */
static __always_inline int nat_pointer_to_v6(__u32 pointer)
{
	if (pointer <= 1)
		return pointer;
	if (pointer <= 3)
		return 4;
	if (pointer == 8)
		return 7;
	if (pointer == 9)
		return 6;
	if (pointer >= 12 && pointer <= 15)
		return 8;
	if (pointer >= 16 && pointer <= 19)
		return 24;
	return NO_EQUIVALENT;
}

static __always_inline int nat_pointer_to_v4(__u32 pointer)
{
	if (pointer <= 1)
		return pointer;
	if (pointer == 4 || pointer == 5)
		return 2;
	if (pointer == 6)
		return 9;
	if (pointer == 7)
		return 8;
	if (pointer >= 8 && pointer <= 23)
		return 12;
	if (pointer >= 24 && pointer <= 39)
		return 16;
	return NO_EQUIVALENT;
}

struct nat_message {
	__u32 first; /* type and code, in the packet's order */
	__be32 second;
};

/* The parts of an error. */
struct nat_error {
	struct nat_head outer;
	struct nat_head quote;
	struct nat_message message;
	__u32 ports; /* offset of the quoted packet's ports */
};

static __always_inline bool nat_unreachable_to_v6(struct nat_message *message,
						  __u32 code)
{
	__u32 mtu = bpf_ntohl(message->second) & 0xffff;

	message->second = 0;
	switch (code) {
	case 2: /* protocol */
		message->first = ICMP_WORD(ICMPV6_PARAMPROB, 1);
		message->second = bpf_htonl(ICMPV6_PTR_NEXT_HEADER);
		return true;
	case 3: /* port */
		message->first = ICMP_WORD(ICMPV6_DEST_UNREACH, 4);
		return true;
	case 4: /* fragmentation needed */
		mtu += sizeof(struct ipv6hdr) - sizeof(struct iphdr);
		message->first = ICMP_WORD(ICMPV6_PKT_TOOBIG, 0);
		message->second = bpf_htonl(mtu < LIMIT_V6 ? LIMIT_V6 : mtu);
		return true;
	case 9:
	case 10:
	case 13:
	case 15: /* prohibited */
		message->first = ICMP_WORD(ICMPV6_DEST_UNREACH, 1);
		return true;
	case 14:
		return false;
	default:
		message->first = ICMP_WORD(ICMPV6_DEST_UNREACH, 0);
		return code < 14;
	}
}

static __always_inline bool nat_message_to_v6(struct nat_message *message)
{
	__u32 type = message->first & 0xff, code = message->first >> 8;
	int pointer;

	switch (type) {
	case ICMP_DEST_UNREACH:
		return nat_unreachable_to_v6(message, code);
	case ICMP_TIME_EXCEEDED:
		message->first = ICMP_WORD(ICMPV6_TIME_EXCEED, code);
		message->second = 0;
		return true;
	case ICMP_PARAMETERPROB:
		pointer = nat_pointer_to_v6(bpf_ntohl(message->second) >> 24);
		message->first = ICMP_WORD(ICMPV6_PARAMPROB, 0);
		message->second = bpf_htonl(pointer);
		return (code == 0 || code == 2) && pointer != NO_EQUIVALENT;
	default:
		return false;
	}
}

static __always_inline bool nat_message_to_v4(struct nat_message *message)
{
	__u32 type = message->first & 0xff, code = message->first >> 8;
	__u32 mtu = bpf_ntohl(message->second);
	int pointer;

	message->second = 0;
	switch (type) {
	case ICMPV6_DEST_UNREACH:
		message->first =
			ICMP_WORD(ICMP_DEST_UNREACH,
				  code == 1 ? 10 : (code == 4 ? 3 : 1));
		return code <= 4;
	case ICMPV6_PKT_TOOBIG:
		mtu -= sizeof(struct ipv6hdr) - sizeof(struct iphdr);
		message->first = ICMP_WORD(ICMP_DEST_UNREACH, 4);
		message->second = bpf_htonl(mtu > 0xffff ? 0xffff : mtu);
		return true;
	case ICMPV6_TIME_EXCEED:
		message->first = ICMP_WORD(ICMP_TIME_EXCEEDED, code);
		return true;
	case ICMPV6_PARAMPROB:
		if (code == 1) {
			message->first = ICMP_WORD(ICMP_DEST_UNREACH, 2);
			return true;
		}
		pointer = nat_pointer_to_v4(mtu);
		message->first = ICMP_WORD(ICMP_PARAMETERPROB, 0);
		message->second = bpf_htonl((__u32)pointer << 24);
		return !code && pointer != NO_EQUIVALENT;
	default:
		return false;
	}
}

/* The sum of a message up to its ports, without its checksum, and of its
 * pseudo-header. 16 bits. */
__noinline __u32 nat_sum_error(struct xdp_md *ctx, __u32 l3, __u32 icmp,
			       __u32 ports, __u32 length)
{
	bool v6 = length >> 31;
	const __u16 *check;
	__u64 sum = sum_of(ctx, icmp, ports + 4 - icmp);

	length &= 0x7fffffff;
	check = at(ctx, icmp + ICMP_CHECKSUM, sizeof(*check));
	if (check)
		sum += (__u16) ~*check;
	if (v6) {
		sum += sum_of(ctx, l3 + offsetof(struct ipv6hdr, saddr), 32);
		sum += (__u64)bpf_htonl(length) + bpf_htonl(IPPROTO_ICMPV6);
	}
	return fold(sum);
}

static __always_inline __u32 nat_length_of(__u32 length, bool v6)
{
	return length | (__u32)v6 << 31;
}

/* The most that follows an IPv4 header. A longer quoted packet does not exist
 * in the other family; one that claims to be shorter than its own headers
 * exists in none, and its length is far above this. */
#define NAT_QUOTED_MAX (65535 - sizeof(struct iphdr))

/* Reads the quoted header at packet->l4 + 8, with the length of the whole
 * quoted packet. */
static __always_inline bool nat_read_quote(struct xdp_md *ctx,
					   const struct packet *packet,
					   __u32 ports, struct nat_head *head)
{
	__u32 offset = packet->l4 + ICMP_HEADER;

	if (packet->v6) {
		const struct ipv6hdr *ip = at(ctx, offset, sizeof(*ip));

		if (!ip)
			return false;
		nat_read_v6(ip, head);
		head->length = bpf_ntohs(ip->payload_len) -
			       (ports - offset - sizeof(*ip));
	} else {
		const struct iphdr *ip = at(ctx, offset, sizeof(*ip));

		if (!ip)
			return false;
		nat_read_v4(ip, head);
		head->length = bpf_ntohs(ip->tot_len) - (ports - offset);
	}
	return true;
}

/* Translates type, code and the second word. */
static __always_inline bool nat_translate_message(struct xdp_md *ctx,
						  const struct packet *packet,
						  struct nat_message *message)
{
	const __u8 *icmp = at(ctx, packet->l4, ICMP_HEADER);

	if (!icmp)
		return false;
	message->first = icmp[0] | icmp[1] << 8;
	message->second = *(const __be32 *)(icmp + 4);
	return packet->v6 ? nat_message_to_v4(message)
			  : nat_message_to_v6(message);
}

static __always_inline __u32 nat_header_length(__u32 what)
{
	return what & NAT_OUT_V6 ? sizeof(struct ipv6hdr)
				 : sizeof(struct iphdr);
}

/* From here on `what` includes the link header's length. */
#define NAT_LINK_SHIFT 8

/* Reads everything before the frame changes. Returns the outcome. */
__noinline int nat_read_error(struct xdp_md *ctx, const struct packet *packet,
			      __u32 what, struct nat_error *error)
{
	if (!packet || !error || !nat_read_head(ctx, packet, &error->outer) ||
	    !nat_read_quote(ctx, packet, error->ports, &error->quote))
		return OXP_DROP_INTERNAL;
	if (error->quote.length > NAT_QUOTED_MAX ||
	    !nat_translate_message(ctx, packet, &error->message))
		return OXP_DROP_NAT_UNTRANSLATABLE;
	error->outer.length = packet->end - error->ports +
			      nat_header_length(what) + ICMP_HEADER;
	error->outer.protocol =
		what & NAT_OUT_V6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	error->outer.fragment = 0;
	error->outer.id = 0;
	error->quote.id = 0;
	error->outer.ttl--;
	return OXP_FORWARDED;
}

/* Writes an IP header of the other family at `offset`. */
__noinline int nat_put_header(struct xdp_md *ctx, __u32 offset, __u32 number,
			      __u32 what, const struct nat_head *head)
{
	struct nat_ends ends;
	void *ip;

	if (!head || !nat_ends_of(number, what, what & NAT_QUOTED, &ends))
		return false;
	/* check the bounds where each is written: older verifiers do not see
	 * that both conditions are the same */
	if (what & NAT_OUT_V6) {
		ip = at(ctx, offset, sizeof(struct ipv6hdr));
		if (!ip)
			return false;
		nat_put_v6(ip, head, &ends, head->ttl);
	} else {
		ip = at(ctx, offset, sizeof(struct iphdr));
		if (!ip)
			return false;
		nat_put_v4(ip, head, &ends, head->ttl);
	}
	return true;
}

/* The frame starts with `link_length` bytes for the link header. */
__noinline int nat_put_error(struct xdp_md *ctx, __u32 number, __u32 what,
			     const struct nat_error *error)
{
	__u32 icmp = (what >> NAT_LINK_SHIFT) + nat_header_length(what);
	__u32 *word;

	if (!error)
		return false;
	word = at(ctx, icmp, ICMP_HEADER);
	if (!word)
		return false;
	word[0] = error->message.first;
	word[1] = error->message.second;
	return nat_put_header(ctx, what >> NAT_LINK_SHIFT, number, what,
			      &error->outer) &&
	       nat_put_header(ctx, icmp + ICMP_HEADER, number,
			      what | NAT_QUOTED, &error->quote);
}

/* Writes the quoted packet's ports as its sender knows them. */
__noinline int nat_put_ports(struct xdp_md *ctx, __u32 offset, __u32 number,
			     __u32 what)
{
	struct nat_ends ends;
	__be16 *ports = at(ctx, offset, 4);

	if (!ports || !nat_ends_of(number, what, true, &ends))
		return false;
	ports[0] = ends.source_port;
	ports[1] = ends.destination_port;
	return true;
}

/* Rewrites the quoted header within one family. Its checksum offsets the change
 * of its addresses. */
__noinline int nat_correct_quote(struct xdp_md *ctx,
				 const struct packet *packet, __u32 number,
				 __u32 what)
{
	struct nat_ends ends;
	struct ipv6hdr *v6;
	struct iphdr *v4;

	if (!packet || !nat_ends_of(number, what, true, &ends))
		return false;
	if (packet->v6) {
		v6 = at(ctx, packet->l4 + ICMP_HEADER, sizeof(*v6));
		if (!v6)
			return false;
		__builtin_memcpy(&v6->saddr, ends.source, 16);
		__builtin_memcpy(&v6->daddr, ends.destination, 16);
		return true;
	}
	v4 = at(ctx, packet->l4 + ICMP_HEADER, sizeof(*v4));
	if (!v4)
		return false;
	v4->check = corrected(v4->check, (__u64)v4->saddr + v4->daddr,
			      (__u64)ends.source[3] + ends.destination[3]);
	v4->saddr = ends.source[3];
	v4->daddr = ends.destination[3];
	return true;
}

/* Rewrites within one family; `ports` is the offset of the quoted ports. The
 * checksum is corrected by the change of everything up to these. */
__noinline int nat_correct_error(struct xdp_md *ctx,
				 const struct packet *packet, __u32 number,
				 __u32 what, __u32 ports)
{
	__u32 link_length = what >> NAT_LINK_SHIFT, moved, was, is, length;
	int outcome;
	__u16 *sum;

	if (!packet)
		return OXP_DROP_INTERNAL;
	length = nat_length_of(packet->end - packet->l4, packet->v6);
	was = nat_sum_error(ctx, packet->l3, packet->l4, ports, length);
	if (!nat_put_ports(ctx, ports, number, what) ||
	    !nat_correct_quote(ctx, packet, number, what))
		return OXP_DROP_INTERNAL;
	outcome = nat_correct_header(ctx, packet, number, what, link_length);
	if (outcome != OXP_FORWARDED)
		return outcome;
	moved = packet->l3 - link_length;
	is = nat_sum_error(ctx, link_length, packet->l4 - moved, ports - moved,
			   length);
	sum = at(ctx, packet->l4 - moved + ICMP_CHECKSUM, sizeof(*sum));
	if (!sum)
		return OXP_DROP_INTERNAL;
	*sum = corrected(*sum, was, is);
	return OXP_FORWARDED;
}

/* Rewrites between families; `error` has been read. */
__noinline int nat_translate_error(struct xdp_md *ctx,
				   const struct packet *packet, __u32 number,
				   __u32 what, const struct nat_error *error)
{
	__u32 link_length = what >> NAT_LINK_SHIFT, header, was, is;
	__u16 *sum, check;

	if (!packet || !error)
		return OXP_DROP_INTERNAL;
	was = nat_sum_error(
		ctx, packet->l3, packet->l4, error->ports,
		nat_length_of(packet->end - packet->l4, packet->v6));
	sum = at(ctx, packet->l4 + ICMP_CHECKSUM, sizeof(*sum));
	if (!sum)
		return OXP_DROP_INTERNAL;
	check = *sum;
	if (!nat_put_ports(ctx, error->ports, number, what))
		return OXP_DROP_INTERNAL;
	header = nat_header_length(what);
	if (bpf_xdp_adjust_head(ctx, (int)(error->ports - 2 * header -
					   ICMP_HEADER - link_length)))
		return OXP_DROP_NO_HEADROOM;
	if (!nat_put_error(ctx, number, what, error))
		return OXP_DROP_INTERNAL;
	/* its own checksum is still 0 */
	is = nat_sum_error(
		ctx, link_length, link_length + header,
		link_length + 2 * header + ICMP_HEADER,
		nat_length_of(error->outer.length, what & NAT_OUT_V6));
	sum = at(ctx, link_length + header + ICMP_CHECKSUM, sizeof(*sum));
	if (!sum)
		return OXP_DROP_INTERNAL;
	*sum = corrected(check, was, is);
	return OXP_FORWARDED;
}

#endif
