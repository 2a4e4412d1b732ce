// SPDX-License-Identifier: Apache-2.0
#include "member_packets.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static void put16(uint8_t *at, unsigned int value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

/* RFC 1071 */
static uint32_t sum(const uint8_t *data, size_t length)
{
	uint32_t total = 0;

	for (size_t i = 0; i < length; i++)
		total += i & 1 ? data[i] : data[i] << 8;
	return total;
}

static uint16_t finish(uint32_t total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return ~total;
}

bool is_ipv4(const char *address)
{
	return !strchr(address, ':');
}

struct ip_address mapped(const char *text)
{
	struct ip_address out = {};

	if (inet_pton(AF_INET, text, out.bytes + 12) == 1)
		out.bytes[10] = out.bytes[11] = 0xff;
	else
		assert_int_equal(inet_pton(AF_INET6, text, out.bytes), 1);
	return out;
}

static void put_ip(struct frame *frame, const char *from, const char *to,
		   uint8_t protocol, uint8_t tos, uint16_t fragment,
		   size_t payload)
{
	uint8_t *ip = frame->data + frame->length;

	if (is_ipv4(from)) {
		memset(ip, 0, 20);
		ip[0] = 0x45;
		ip[1] = tos;
		put16(ip + 2, 20 + payload);
		put16(ip + 4, 0x1234);
		put16(ip + 6, fragment);
		ip[8] = 57;
		ip[9] = protocol;
		inet_pton(AF_INET, from, ip + 12);
		inet_pton(AF_INET, to, ip + 16);
		put16(ip + 10, finish(sum(ip, 20)));
		frame->length += 20;
		return;
	}
	ip[0] = 0x60 | tos >> 4;
	ip[1] = tos << 4 | 0x0a;
	put16(ip + 2, 0xbcde);
	put16(ip + 4, payload + (fragment ? 8 : 0));
	ip[6] = fragment ? IPPROTO_FRAGMENT : protocol;
	ip[7] = 57;
	inet_pton(AF_INET6, from, ip + 8);
	inet_pton(AF_INET6, to, ip + 24);
	frame->length += 40;
	if (!fragment)
		return;
	ip += 40;
	memset(ip, 0, 8);
	ip[0] = protocol;
	put16(ip + 2, (fragment & 0x1fff) << 3 | !!(fragment & 0x2000));
	ip[7] = 9;
	frame->length += 8;
}

static uint32_t pseudo_sum(const struct packet *packet, size_t length)
{
	struct ip_address from = mapped(packet->from), to = mapped(packet->to);
	/* the 0xffff of a mapped address sums to zero */
	return sum(from.bytes, 16) + sum(to.bytes, 16) + packet->protocol +
	       length;
}

static size_t header_length(const struct packet *packet)
{
	switch (packet->protocol) {
	case IPPROTO_TCP:
		return 20 + packet->options_length;
	case IPPROTO_SCTP:
		return 12;
	default:
		return 8;
	}
}

static void put_transport(uint8_t *at, const struct packet *packet,
			  size_t length)
{
	size_t header = header_length(packet);
	size_t place = 6;

	memset(at, 0, header);
	put16(at, packet->from_port);
	put16(at + 2, packet->to_port);
	for (size_t i = 0; i < packet->length; i++)
		at[header + i] = packet->payload ? packet->payload[i] : i * 7;
	switch (packet->protocol) {
	case IPPROTO_TCP:
		put32(at + 4, packet->sequence ? packet->sequence : 0x77000000);
		put32(at + 8, packet->acknowledged);
		at[12] = header / 4 << 4;
		at[13] = packet->flags ? packet->flags : 0x10;
		if (packet->options_length)
			memcpy(at + 20, packet->options,
			       packet->options_length);
		place = 16;
		break;
	case IPPROTO_UDP:
		put16(at + 4, length);
		if (packet->no_checksum)
			return;
		break;
	case IPPROTO_SCTP:
		memset(at + 8, 0xcc, 4);
		return;
	default: /* ICMP */
		memset(at, 0, 4);
		at[0] = packet->type;
		put16(at + 2, finish(sum(at, length) +
				     (is_ipv4(packet->from)
					      ? 0
					      : pseudo_sum(packet, length))));
		return;
	}
	put16(at + place, finish(sum(at, length) + pseudo_sum(packet, length)));
	if (packet->protocol == IPPROTO_UDP && !at[6] && !at[7])
		put16(at + 6, 0xffff);
}

void put_packet(struct frame *frame, const struct packet *packet)
{
	bool later = packet->fragment & 0x1fff;
	size_t header = later ? 0 : header_length(packet);
	size_t length = header + packet->length;
	size_t extensions = packet->extensions ? 8 + 16 : 0;
	uint8_t *at;

	put_ip(frame, packet->from, packet->to,
	       packet->extensions ? IPPROTO_HOPOPTS : packet->protocol,
	       packet->tos, packet->fragment, extensions + length);
	at = frame->data + frame->length;
	if (packet->extensions) {
		memset(at, 0, extensions);
		at[0] = IPPROTO_DSTOPTS;
		at[3] = 4; /* PadN */
		at[2] = 1;
		at[8] = packet->protocol;
		at[9] = 1;
		at[10] = 1;
		at[11] = 12;
		at += extensions;
	}
	if (later)
		for (size_t i = 0; i < length; i++)
			at[i] = i * 11;
	else
		put_transport(at, packet, length);
	frame->length += extensions + length;
}

void put_link(struct frame *frame, unsigned int tags, bool ipv4)
{
	uint8_t *at = frame->data + 12;

	memset(frame, 0, sizeof(*frame));
	memcpy(frame->data, (uint8_t[]){2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2},
	       12);
	for (unsigned int i = 0; i < tags; i++, at += 4) {
		put16(at, i + 1 < tags ? 0x88a8 : 0x8100);
		put16(at + 2, 100 + i);
	}
	put16(at, ipv4 ? 0x0800 : 0x86dd);
	frame->length = 14 + 4 * tags;
}

void make_plain(struct frame *frame, const struct packet *packet,
		unsigned int tags)
{
	put_link(frame, tags, is_ipv4(packet->from));
	put_packet(frame, packet);
}

bool has_udp(enum kind kind)
{
	return kind == GUE || kind == GENEVE;
}

/* Returns its length. It follows a UDP header or an IPv6 header. */
static size_t put_alternative(uint8_t *at, const struct outer *outer,
			      bool inner_ipv4)
{
	struct ip_address address = mapped(outer->alternative);
	bool ipv4 = is_ipv4(outer->alternative);
	uint8_t words = ipv4 ? 1 : 4, protocol = inner_ipv4 ? 4 : 41;
	const uint8_t gue[8] = {words + 1, protocol, 0, 0, 0, 0, 0, 1};
	const uint8_t geneve[8] = {0xff,
				   0x4f,
				   1,
				   words + 1,
				   outer->alternative_vni >> 16,
				   outer->alternative_vni >> 8,
				   outer->alternative_vni};
	const uint8_t segments[8] = {protocol, 2, 4, 1};

	memcpy(at,
	       outer->kind == GUE      ? gue
	       : outer->kind == GENEVE ? geneve
				       : segments,
	       8);
	memcpy(at + 8, address.bytes + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
	return ipv4 ? 12 : 24;
}

void wrap(struct frame *frame, const uint8_t *inner, size_t length,
	  bool inner_ipv4, const struct outer *outer)
{
	static const size_t header[KINDS] = {
		[GUE] = 8, [GRE] = 4, [GENEVE] = 16};
	uint8_t protocol = has_udp(outer->kind) ? IPPROTO_UDP
			   : outer->kind == GRE ? IPPROTO_GRE
			   : inner_ipv4         ? IPPROTO_IPIP
						: IPPROTO_IPV6;
	uint8_t alternative[24];
	size_t more = 0;
	uint8_t *at;

	if (outer->alternative) {
		more = put_alternative(alternative, outer, inner_ipv4);
		if (outer->kind == IPIP)
			protocol = IPPROTO_ROUTING;
	}
	length += more;
	put_link(frame, outer->tags, is_ipv4(outer->from));
	put_ip(frame, outer->from, outer->to, protocol, outer->tos, 0,
	       header[outer->kind] + length);
	at = frame->data + frame->length;
	if (outer->ttl && is_ipv4(outer->from)) {
		at[-12] = outer->ttl;
		put16(at - 10, 0);
		put16(at - 10, finish(sum(at - 20, 20)));
	} else if (outer->ttl) {
		at[-33] = outer->ttl;
	}
	if (has_udp(outer->kind)) {
		put16(at, 0xc123);
		put16(at + 2, outer->kind == GUE ? 6080 : 6081);
		put16(at + 4, header[outer->kind] + length);
		put16(at + 6, 0);
	}
	if (outer->kind == GENEVE) {
		put16(at + 8, more / 4 << 8);
		put16(at + 10, inner_ipv4 ? 0x0800 : 0x86dd);
		put16(at + 12, outer->vni >> 8);
		put16(at + 14, outer->vni << 8);
	} else if (outer->kind == GRE) {
		put16(at, 0);
		put16(at + 2, inner_ipv4 ? 0x0800 : 0x86dd);
	}
	at += header[outer->kind];
	memcpy(at, alternative, more);
	memcpy(at + more, inner, length - more);
	frame->length += header[outer->kind] + length;
}

void make_tunnel(struct frame *frame, const struct packet *packet,
		 const struct outer *outer)
{
	struct frame inner = {};

	put_packet(&inner, packet);
	wrap(frame, inner.data, inner.length, is_ipv4(packet->from), outer);
}

void make_error(struct packet *error, uint8_t *payload,
		const struct packet *quoted, size_t length)
{
	struct frame quote = {};
	bool ipv4 = is_ipv4(quoted->from);

	put_packet(&quote, quoted);
	assert_true(quote.length >= length);
	memcpy(payload, quote.data, length);
	*error = (struct packet){
		.from = ipv4 ? "203.0.113.99" : "2001:db8:99::1",
		.to = quoted->from,
		.protocol = ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6,
		.type = ipv4 ? 3 : 2,
		.payload = payload,
		.length = length,
	};
}
