/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tunnel packets that name an alternative: the member that may have the flow if
 * this one does not. Between the outer IP header and the packet they have, with
 * the alternative's address in four bytes (IPv4) or 16:
 *   GUE     UDP, four bytes of variant 0 without flags, private data of one
 *           word and the address
 *   Geneve  UDP, eight bytes, one option of two words and the address
 *   SRv6    a segment routing header with the address as its only segment
 * Everything else is left to the stack.
 */
#ifndef OXP_NAMED_H
#define OXP_NAMED_H

#include "outer.h"
#include "tunnel.h"

struct named {
	struct ip_address alternative;
	__be32 vni;   /* of the alternative, as in the header */
	__u32 length; /* bytes of the alternative; 0: none is named */
};

struct gue_header {
	__u8 length; /* version 0, no control message, length in words */
	__u8 protocol;
	__be16 flags;
	__be32 private_data;
};

struct geneve_option {
	__be32 kind;
	__be32 vni;
};

struct segment_routing {
	__u8 next;
	__u8 length;
	__be16 type_left;
	__be32 last_flags_tag;
};

_Static_assert(sizeof(struct gue_header) + 4 == OXP_ALTERNATIVE_V4 &&
		       sizeof(struct gue_header) + 16 == OXP_ALTERNATIVE_V6,
	       "GUE");
_Static_assert(sizeof(struct geneve_option) == sizeof(struct gue_header) &&
		       sizeof(struct segment_routing) ==
			       sizeof(struct gue_header),
	       "Geneve and SRv6");

static __always_inline __be16 type_of(__u8 protocol)
{
	if (protocol == IPPROTO_IPIP)
		return bpf_htons(ETH_P_IP);
	return protocol == IPPROTO_IPV6 ? bpf_htons(ETH_P_IPV6) : 0;
}

/* Length of the whole alternative in words. */
static __always_inline __u32 named_words(const struct tunnel *tunnel)
{
	return (tunnel->version == 4 ? OXP_ALTERNATIVE_V4
				     : OXP_ALTERNATIVE_V6) /
	       4;
}

/* Returns the end of the address, or NULL if it is not all there. */
static __always_inline void *read_address(void *at, void *end,
					  const struct tunnel *tunnel,
					  struct named *named)
{
	__be32 *v4 = at;
	struct ip_address *v6 = at;

	if (tunnel->version == 4) {
		if ((void *)(v4 + 1) > end)
			return NULL;
		named->alternative = mapped(*v4);
		named->length = OXP_ALTERNATIVE_V4;
		return v4 + 1;
	}
	if ((void *)(v6 + 1) > end)
		return NULL;
	named->alternative = *v6;
	named->length = OXP_ALTERNATIVE_V6;
	return v6 + 1;
}

static __always_inline void *find_named_in_gue(const struct outer *outer,
					       void *end, struct tunnel *tunnel,
					       struct named *named)
{
	struct udphdr *udp = outer->payload;
	struct gue_header *gue = (void *)(udp + 1);
	void *inner;

	if ((void *)(gue + 1) > end || gue->length != named_words(tunnel) - 1 ||
	    gue->flags || gue->private_data != bpf_htonl(ALTERNATIVE_GLB))
		return NULL;
	tunnel->type = type_of(gue->protocol);
	inner = read_address(gue + 1, end, tunnel, named);
	tunnel->length = outer->header + sizeof(*udp) + named->length;
	return tunnel->type ? inner : NULL;
}

static __always_inline void *find_named_in_geneve(const struct outer *outer,
						  void *end,
						  struct tunnel *tunnel,
						  struct named *named)
{
	struct udphdr *udp = outer->payload;
	struct geneve_header *geneve = (void *)(udp + 1);
	struct geneve_option *option = (void *)(geneve + 1);
	__u32 words = named_words(tunnel);
	void *inner;

	if ((void *)(option + 1) > end || !is_ip(geneve->type) ||
	    geneve->version_options !=
		    bpf_htons(words << GENEVE_OPTIONS_SHIFT) ||
	    option->kind !=
		    bpf_htonl((__u32)ALTERNATIVE_GENEVE_CLASS << 16 |
			      ALTERNATIVE_GENEVE_TYPE << 8 | (words - 1)))
		return NULL;
	tunnel->type = geneve->type;
	named->vni = option->vni;
	inner = read_address(option + 1, end, tunnel, named);
	tunnel->length =
		outer->header + sizeof(*udp) + sizeof(*geneve) + named->length;
	return inner;
}

static __always_inline void *find_named_in_segments(const struct outer *outer,
						    void *end,
						    struct tunnel *tunnel,
						    struct named *named)
{
	struct segment_routing *header = outer->payload;
	void *inner;

	if (tunnel->version != 6 || (void *)(header + 1) > end ||
	    header->length != named_words(tunnel) / 2 - 1 ||
	    header->type_left !=
		    bpf_htons(ALTERNATIVE_SEGMENT_ROUTING << 8 | 1) ||
	    header->last_flags_tag)
		return NULL;
	tunnel->type = type_of(header->next);
	inner = read_address(header + 1, end, tunnel, named);
	tunnel->length = outer->header + named->length;
	return tunnel->type ? inner : NULL;
}

#endif
