// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a member what the arguments say, whatever it was before. In this order,
 * so that it can be interrupted and run again:
 *   1. the egress program, with the record of what has to be undone
 *   2. sysctls, before the VIP could be asked for
 *   3. VIPs on lo
 *   4. the program that takes packets in
 *   5. removal of what is no longer wanted
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "tool.h"

/* Records each sysctl that is about to be changed. */
static int note_sysctls(const struct interface *interface,
			const struct settings *settings, struct undo *undo)
{
	for (int i = 0; i < SYSCTLS; i++) {
		int effective;

		if (!(settings->flags & SET_SYSCTL) || undo->sysctl[i].changed)
			continue;
		if (effective_sysctl(interface->name, i, &effective) ||
		    read_sysctl(interface->name, sysctl_name(i),
				&undo->sysctl[i].value))
			return complain_status(-errno, "%s: sysctls",
					       interface->name);
		undo->sysctl[i].changed =
			sysctl_wanted(i, effective) != effective;
	}
	return 0;
}

static int set_sysctls(const struct interface *interface,
		       const struct settings *settings)
{
	for (int i = 0; i < SYSCTLS; i++) {
		int effective, wanted, status;

		if (!(settings->flags & SET_SYSCTL))
			continue;
		if (effective_sysctl(interface->name, i, &effective))
			return complain_status(-errno, "%s: sysctls",
					       interface->name);
		wanted = sysctl_wanted(i, effective);
		status = wanted == effective
				 ? 0
				 : write_sysctl(interface->name, i, wanted);
		if (status)
			return complain_status(status, "%s: sysctls",
					       interface->name);
	}
	return 0;
}

/* Without --sysctl: restores those that an earlier setup changed. */
static int undo_sysctls(const struct interface *interface, int program,
			struct record *record)
{
	bool any = false;

	if (record->settings.flags & SET_SYSCTL)
		return 0;
	for (int i = 0; i < SYSCTLS; i++) {
		int status;

		if (!record->undo.sysctl[i].changed)
			continue;
		status = write_sysctl(interface->name, i,
				      record->undo.sysctl[i].value);
		if (status)
			return complain_status(status, "%s: sysctls",
					       interface->name);
		record->undo.sysctl[i].changed = 0;
		any = true;
	}
	return any ? write_record(program, record) : 0;
}

static int check_conflicts(const struct interface *interface,
			   const struct installed *installed,
			   const struct settings *settings)
{
	struct interface lo;

	if (installed->foreign)
		return complain("%s has another %s; remove that first, or "
				"choose another mode (--tc)",
				interface->name, installed->foreign);
	if (settings->vips && !(settings->flags & NO_ADDRESS) &&
	    (find_interface("lo", &lo) || !(lo.flags & IFF_UP)))
		return complain("lo is down, packets to a VIP on it would be "
				"lost: ip link set lo up");
	return 0;
}

static bool is_converged(const struct installed *installed,
			 const struct settings *settings, struct member *object)
{
	const struct record *record = &installed->record;
	bool tc = settings->mode == MODE_TC;
	struct bpf_program *in =
		tc ? object->progs.oxp_member_in : object->progs.oxp_member_xdp;
	int attached = ingress_program(installed);

	return installed->have_record && !installed->mixed &&
	       is_known(record) && installed->out >= 0 && attached >= 0 &&
	       (installed->xdp < 0) == tc &&
	       (installed->in >= 0) == wants_filter(settings) &&
	       (tc || installed->xdp_mode == settings->mode) &&
	       !memcmp(&record->settings, settings, sizeof(*settings)) &&
	       same_code(attached, bpf_program__fd(in)) &&
	       same_code(installed->out,
			 bpf_program__fd(object->progs.oxp_member_out));
}

static int apply(const struct interface *interface, struct installed *installed,
		 struct settings *settings)
{
	struct record record = {.version = RECORD_VERSION,
				.undo = installed->record.undo,
				.settings = *settings};
	struct member *object;
	int out, status = -1;

	if (!installed->clsact)
		record.undo.clsact = 1;
	if (note_sysctls(interface, settings, &record.undo))
		return -1;
	object = load_programs(settings, &record.undo,
			       is_installed(installed)
				       ? ingress_program(installed) >= 0
						 ? ingress_program(installed)
						 : installed->out
				       : -1);
	if (!object)
		return -1;
	if (is_converged(installed, settings, object)) {
		out = installed->out;
		if (write_record(out, &record) ||
		    set_sysctls(interface, settings) || put_addresses(settings))
			goto out;
	} else {
		out = bpf_program__fd(object->progs.oxp_member_out);
		if (attach_out(interface, installed, out) ||
		    set_sysctls(interface, settings) ||
		    put_addresses(settings) ||
		    attach_ingress(interface, installed, settings, object))
			goto out;
	}
	if (!sweep_addresses(interface->index, settings) &&
	    !undo_sysctls(interface, out, &record))
		status = 0;
out:
	member__destroy(object);
	return status;
}

int setup(struct arguments *arguments)
{
	struct interface interface;
	struct installed installed;
	int status;

	if (find_interface(arguments->interface, &interface)) {
		complain("there is no interface %s", arguments->interface);
		return 1;
	}
	if (complete_settings(arguments, &interface) ||
	    find_installed(&interface, &installed))
		return 1;
	/* a foreign XDP program does not affect tc */
	if (arguments->tc && installed.foreign && installed.xdp < 0 &&
	    !strcmp(installed.foreign, "XDP program"))
		installed.foreign = NULL;
	status = check_conflicts(&interface, &installed, &arguments->settings);
	if (!status)
		status = apply(&interface, &installed, &arguments->settings);
	close_installed(&installed);
	if (!status && !arguments->settings.vips &&
	    !arguments->settings.vip_networks)
		fputs(PROGRAM ": no VIP is given, so no packet is taken\n",
		      stderr);
	return status ? 1 : 0;
}
