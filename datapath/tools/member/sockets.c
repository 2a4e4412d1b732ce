// SPDX-License-Identifier: Apache-2.0
/*
 * Offsets in the kernel's BTF of what sockets in TIME_WAIT and SYN_RECV have
 * sent and received. The programs do not use relocations (CO-RE) for them:
 * libbpf would not load any program on a kernel without BTF.
 */
#include <string.h>

#include <bpf/btf.h>

#include "tool.h"

/* Offset in bytes, -1: not found. Also in unnamed structures and unions. */
static long find_member(const struct btf *btf, const struct btf_type *type,
			const char *name)
{
	const struct btf_member *members = btf_members(type);

	for (__u32 i = 0; i < btf_vlen(type); i++) {
		const char *own = btf__name_by_offset(btf, members[i].name_off);
		long at = btf_member_bit_offset(type, i) / 8, inner;
		const struct btf_type *of;

		if (!own)
			return -1;
		if (!strcmp(own, name))
			return at;
		of = btf__type_by_id(btf, members[i].type);
		if (*own || !of || !btf_is_composite(of))
			continue;
		inner = find_member(btf, of, name);
		if (inner >= 0)
			return at + inner;
	}
	return -1;
}

static bool find_offsets(const struct btf *btf, const char *type,
			 const char *sent, const char *received,
			 struct member_socket *out)
{
	__s32 number = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	const struct btf_type *structure;
	long sent_at, received_at;

	if (number <= 0)
		return false;
	structure = btf__type_by_id(btf, number);
	sent_at = find_member(btf, structure, sent);
	received_at = find_member(btf, structure, received);
	if (sent_at <= 0 || received_at <= 0)
		return false;
	out->sent = sent_at;
	out->received = received_at;
	return true;
}

bool find_sockets(struct member_config *config)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool known;

	if (!btf)
		return false;
	/* struct tcp_timewait_sock starts with it */
	known = find_offsets(btf, "sock_common", "skc_tw_snd_nxt",
			     "skc_tw_rcv_nxt", &config->closed);
	known &= find_offsets(btf, "tcp_request_sock", "snt_isn", "rcv_nxt",
			      &config->opening);
	btf__free(btf);
	return known;
}
