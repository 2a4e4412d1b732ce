// SPDX-License-Identifier: Apache-2.0
/*
 * What is attached to an interface: XDP, and filters of the clsact qdisc.
 * Nothing is pinned: attached programs stay until they are detached, and their
 * kind and settings are read from them.
 */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "tool.h"

/* Place among other filters of the interface; an arbitrary choice. */
#define FILTER_HANDLE 1
#define FILTER_PRIORITY 0x584d

/* -ENOENT: the program is not ours. */
static int open_ours(__u32 id, const char *name)
{
	struct bpf_prog_info info = {};
	__u32 length = sizeof(info);
	int program = bpf_prog_get_fd_by_id(id);

	if (program < 0)
		return program;
	if (!bpf_obj_get_info_by_fd(program, &info, &length) &&
	    !strcmp(info.name, name))
		return program;
	close(program);
	return -ENOENT;
}

static int find_xdp(const struct interface *interface,
		    struct installed *installed)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	int status = bpf_xdp_query(interface->index, 0, &query);

	if (status)
		return complain_status(status, "%s: XDP", interface->name);
	if (query.attach_mode == XDP_ATTACHED_MULTI)
		installed->xdp = -ENOENT;
	else if (query.prog_id)
		installed->xdp = open_ours(query.prog_id, MEMBER_XDP);
	else
		return 0;
	if (installed->xdp == -ENOENT)
		installed->foreign = "XDP program";
	else if (installed->xdp < 0)
		return complain_status(installed->xdp, "%s: XDP program",
				       interface->name);
	installed->xdp_mode =
		query.attach_mode == XDP_ATTACHED_SKB ? MODE_GENERIC : MODE_XDP;
	return 0;
}

static int find_filter(const struct interface *interface,
		       struct installed *installed, bool in)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = interface->index,
		    .attach_point = in ? BPF_TC_INGRESS : BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = FILTER_HANDLE,
		    .priority = FILTER_PRIORITY);
	int *out = in ? &installed->in : &installed->out;
	int status = bpf_tc_query(&hook, &options);

	/* EINVAL: nothing has that priority */
	if (status == -ENOENT || status == -EINVAL)
		return 0;
	if (!status)
		*out = open_ours(options.prog_id, in ? MEMBER_IN : MEMBER_OUT);
	if (*out == -ENOENT)
		installed->foreign =
			in ? "tc ingress filter" : "tc egress filter";
	else if (status || *out < 0)
		return complain_status(status ? status : *out, "%s: tc filter",
				       interface->name);
	return 0;
}

static __u32 map_id(int map)
{
	struct bpf_map_info info = {};
	__u32 length = sizeof(info);

	return bpf_obj_get_info_by_fd(map, &info, &length) ? 0 : info.id;
}

/* Adds the record of one program. After an interrupted setup there are two:
 * what is to be undone is in both, or in the later one. */
static void add_record(struct installed *installed, int program, __u32 *id)
{
	struct record *record = &installed->record;
	struct bpf_map_info info = {};
	__u32 length = sizeof(info), zero = 0;
	struct record *read = NULL;
	int map = program < 0 ? -1 : program_map(program, RECORD_MAP);

	if (map < 0)
		return;
	if (*id && *id != map_id(map))
		installed->mixed = true;
	*id = map_id(map);
	if (!bpf_obj_get_info_by_fd(map, &info, &length) &&
	    info.value_size >= sizeof(__u32) + sizeof(struct undo))
		read = calloc(1, info.value_size > sizeof(*read)
					 ? info.value_size
					 : sizeof(*read));
	if (read && !bpf_map_lookup_elem(map, &zero, read)) {
		if (!installed->have_record) {
			*record = *read;
		} else {
			record->undo.clsact |= read->undo.clsact;
			for (int i = 0; i < SYSCTLS; i++)
				if (read->undo.sysctl[i].changed)
					record->undo.sysctl[i] =
						read->undo.sysctl[i];
		}
		installed->have_record = true;
	}
	free(read);
	close(map);
}

int find_installed(const struct interface *interface,
		   struct installed *installed)
{
	int clsact = has_clsact(interface->index);
	__u32 id = 0;

	memset(installed, 0, sizeof(*installed));
	installed->xdp = installed->in = installed->out = -1;
	installed->clsact = clsact > 0;
	if (clsact < 0 || find_xdp(interface, installed) ||
	    (clsact && (find_filter(interface, installed, true) ||
			find_filter(interface, installed, false)))) {
		close_installed(installed);
		return -1;
	}
	/* the program that takes packets in has the settings in force */
	add_record(installed, installed->xdp, &id);
	add_record(installed, installed->in, &id);
	add_record(installed, installed->out, &id);
	if (!installed->have_record && installed->clsact)
		installed->record.undo.clsact = noted_clsact(interface);
	return 0;
}

void close_installed(struct installed *installed)
{
	int *programs[] = {&installed->xdp, &installed->in, &installed->out};

	for (int i = 0; i < 3; i++) {
		if (*programs[i] >= 0)
			close(*programs[i]);
		*programs[i] = -1;
	}
}

bool is_installed(const struct installed *installed)
{
	return installed->xdp >= 0 || installed->in >= 0 || installed->out >= 0;
}

int ingress_program(const struct installed *installed)
{
	return installed->xdp >= 0 ? installed->xdp : installed->in;
}

static int attach_filter(const struct interface *interface, bool in,
			 bool replace, int program)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = interface->index,
		    .attach_point = in ? BPF_TC_INGRESS : BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = FILTER_HANDLE,
		    .priority = FILTER_PRIORITY, .prog_fd = program,
		    .flags = replace ? BPF_TC_F_REPLACE : 0);
	int status = bpf_tc_attach(&hook, &options);

	if (status)
		return complain_status(
			status, "%s: tc %s filter%s", interface->name,
			in ? "ingress" : "egress",
			status == -EINVAL ? " (is there another ingress qdisc "
					    "than clsact?)"
					  : "");
	return 0;
}

int attach_out(const struct interface *interface,
	       const struct installed *installed, int program)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = interface->index,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	int status;

	if (!installed->clsact) {
		if (note_clsact(interface))
			return -1;
		status = bpf_tc_hook_create(&hook);
		if (status)
			return complain_status(status, "%s: clsact qdisc",
					       interface->name);
	}
	if (attach_filter(interface, false, installed->out >= 0, program))
		return -1;
	return forget_clsact(interface);
}

static int attach_xdp(const struct interface *interface,
		      const struct installed *installed, enum mode mode,
		      int program)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, options,
		    .old_prog_fd = installed->xdp);
	__u32 flags =
		mode == MODE_GENERIC ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
	int status;

	if (installed->xdp >= 0) {
		flags |= XDP_FLAGS_REPLACE;
	} else {
		flags |= XDP_FLAGS_UPDATE_IF_NOEXIST;
		options.old_prog_fd = 0;
	}
	status = bpf_xdp_attach(interface->index, program, flags, &options);
	if (status)
		return complain_status(
			status, "%s: %s XDP%s", interface->name,
			mode == MODE_GENERIC ? "generic" : "native",
			mode == MODE_GENERIC
				? ""
				: "; where the driver has none, take --tc, or "
				  "--generic");
	return 0;
}

static int detach_filter(const struct interface *interface, bool in)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = interface->index,
		    .attach_point = in ? BPF_TC_INGRESS : BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = FILTER_HANDLE,
		    .priority = FILTER_PRIORITY);
	int status = bpf_tc_detach(&hook, &options);

	if (status && status != -ENOENT)
		return complain_status(status, "%s: tc filter",
				       interface->name);
	return 0;
}

int detach_ingress(const struct interface *interface,
		   const struct installed *installed, bool xdp, bool in)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, options,
		    .old_prog_fd = installed->xdp);
	int status = 0;

	if (xdp && installed->xdp >= 0)
		status = bpf_xdp_detach(
			interface->index,
			XDP_FLAGS_REPLACE | (installed->xdp_mode == MODE_GENERIC
						     ? XDP_FLAGS_SKB_MODE
						     : XDP_FLAGS_DRV_MODE),
			&options);
	if (status)
		return complain_status(status, "%s: XDP", interface->name);
	return in && installed->in >= 0 ? detach_filter(interface, true) : 0;
}

/*
 * Packets are taken at any moment: if a program cannot replace the old one in
 * place, because native and generic XDP exclude each other or the new one is at
 * tc, the tc filter stays until the change is done. If both see a packet, the
 * first has already decapsulated it. If packets are handed on, which XDP leaves
 * to tc, the filter stays for good.
 */
bool wants_filter(const struct settings *settings)
{
	return settings->mode == MODE_TC || settings->members;
}

int attach_ingress(const struct interface *interface,
		   const struct installed *installed,
		   const struct settings *settings, struct member *object)
{
	bool keep = wants_filter(settings);
	enum mode mode = settings->mode;
	int xdp = bpf_program__fd(object->progs.oxp_member_xdp);
	int in = bpf_program__fd(object->progs.oxp_member_in);
	struct installed now = *installed;

	if (keep && attach_filter(interface, true, now.in >= 0, in))
		return -1;
	if (mode == MODE_TC)
		return detach_ingress(interface, &now, true, false);
	if (now.xdp >= 0 && now.xdp_mode != mode) {
		if ((!keep &&
		     attach_filter(interface, true, now.in >= 0, in)) ||
		    detach_ingress(interface, &now, true, false))
			return -1;
		now.xdp = -1;
		if (attach_xdp(interface, &now, mode, xdp)) {
			/* restore the previous state */
			if (!attach_xdp(interface, &now, installed->xdp_mode,
					installed->xdp))
				detach_filter(interface, true);
			return -1;
		}
		return keep ? 0 : detach_filter(interface, true);
	}
	if (attach_xdp(interface, &now, mode, xdp))
		return -1;
	return keep ? 0 : detach_ingress(interface, &now, false, true);
}

/* Also removes the qdisc if setup created it and nothing else uses it. */
int detach_out(const struct interface *interface,
	       const struct installed *installed)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = interface->index,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	int filters, status;

	if (installed->record.undo.clsact) {
		filters = count_filters(interface->index);
		if (filters < 0)
			return -1;
		if (filters <= (installed->out >= 0)) {
			status = bpf_tc_hook_destroy(&hook);
			if (status && status != -ENOENT)
				return complain_status(status, "%s: clsact",
						       interface->name);
			return 0;
		}
	}
	return installed->out >= 0 ? detach_filter(interface, false) : 0;
}
