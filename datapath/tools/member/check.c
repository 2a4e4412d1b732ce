// SPDX-License-Identifier: Apache-2.0
/* Checks whether a member does what it was set up for, or prints what to do. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tool.h"

enum level {
	OK,
	NOTE,
	WRONG
};

static bool as_json;
static int problems;

static void say(enum level level, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(enum level level, const char *what, const char *format, ...)
{
	static const char *const names[] = {"ok", "note", "wrong"};
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	problems += level == WRONG;
	if (as_json) {
		json_open('{', NULL);
		json_string("level", names[level]);
		json_string("what", what);
		json_string("text", text);
		json_close('}');
	} else {
		printf("%-5s  %s: %s\n", names[level], what, text);
	}
}

/* Returns whether all programs are attached. */
static bool check_programs(const struct interface *interface,
			   const struct installed *installed)
{
	const struct settings *settings = &installed->record.settings;
	unsigned int mode = installed->xdp >= 0 ? installed->xdp_mode : MODE_TC;
	bool complete = !installed->mixed && installed->out >= 0 &&
			(installed->in >= 0) == wants_filter(settings) &&
			mode == settings->mode;

	if (!complete)
		say(WRONG, "programs",
		    "%s has only a part of them, a setup was interrupted: run "
		    "setup again",
		    interface->name);
	else
		say(OK, "programs", "attached to %s, mode %s", interface->name,
		    mode_text(mode));
	if (!(interface->flags & IFF_UP))
		say(WRONG, "interface", "%s is down: ip link set %s up",
		    interface->name, interface->name);
	return complete;
}

static struct host_address all[ADDRESSES_MAX];

static bool on_host(int count, const struct ip_address *address)
{
	for (int i = 0; i < count; i++)
		if (!memcmp(&all[i].address, address, sizeof(*address)))
			return true;
	return false;
}

/* Returns whether it is an IPv4 network. */
static bool check_vip_network(const struct member_network *network)
{
	bool v4 = is_v4(&network->address);
	struct ip_address last = network->address;
	char text[ADDRESS_TEXT];

	network_text(network, text);
	for (__u32 bit = network->bits; bit < 128; bit++)
		last.bytes[bit / 8] |= 0x80 >> bit % 8;
	if (is_local(&network->address) && is_local(&last))
		say(OK, "vip", "all addresses of %s are the host's", text);
	else
		say(WRONG, "vip",
		    "packets to %s are not for this host: ip %s route add "
		    "local %s dev lo",
		    text, v4 ? "-4" : "-6", text);
	return v4;
}

static bool check_vips(const struct settings *settings, int count)
{
	char text[ADDRESS_TEXT];
	bool v4 = false;

	if (!settings->vips && !settings->vip_networks)
		say(WRONG, "vip", "none is set up: setup --vip ADDRESS");
	for (__u32 i = 0; i < settings->vip_networks; i++)
		v4 |= check_vip_network(&settings->vip_network[i]);
	for (__u32 i = 0; i < settings->vips; i++) {
		const struct ip_address *vip = &settings->vip[i];

		v4 |= is_v4(vip);
		address_text(vip, text);
		if (on_host(count, vip))
			say(OK, "vip", "%s is an address of the host", text);
		else
			say(WRONG, "vip",
			    "%s is no address of the host: ip address add "
			    "%s/%d dev lo%s",
			    text, text, is_v4(vip) ? 32 : 128,
			    settings->flags & NO_ADDRESS ? ""
							 : ", or run setup "
							   "again");
	}
	return v4;
}

static void check_own(const struct settings *settings, int count)
{
	char text[ADDRESS_TEXT];

	for (__u32 i = 0; i < settings->owns; i++) {
		address_text(&settings->own[i], text);
		if (on_host(count, &settings->own[i]))
			say(OK, "address", "tunnels to %s are taken", text);
		else if (settings->flags & OWN_GIVEN)
			say(NOTE, "address",
			    "tunnels to %s are taken, which is no address of "
			    "the host; right for an SRv6 SID",
			    text);
		else
			say(WRONG, "address",
			    "%s is no address of the host any more: run setup "
			    "again",
			    text);
	}
}

static void check_arp(const struct interface *interface)
{
	for (int i = ARP_IGNORE; i <= ARP_ANNOUNCE; i++) {
		char name[64];
		int effective, wanted;

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wformat-nonliteral"
		snprintf(name, sizeof(name), sysctl_name(i), interface->name);
#pragma clang diagnostic pop
		if (interface->flags & IFF_NOARP ||
		    effective_sysctl(interface->name, i, &effective))
			continue;
		wanted = sysctl_wanted(i, effective);
		if (effective == wanted)
			say(OK, "arp", "net/%s is %d", name, effective);
		else
			say(WRONG, "arp",
			    "net/%s is %d: neighbours would send the VIP's "
			    "packets here and not to LB nodes; setup --sysctl, "
			    "or sysctl -w net/%s=%d",
			    name, effective, name, wanted);
	}
}

static void check_paths(const struct interface *interface)
{
	int effective;

	if (effective_sysctl(interface->name, RP_FILTER, &effective))
		return;
	if (effective == 1)
		say(NOTE, "rp_filter",
		    "strict on %s: packets of clients whose route is by "
		    "another interface are dropped; setup --sysctl, or sysctl "
		    "-w net/ipv4/conf/%s/rp_filter=2",
		    interface->name, interface->name);
	else
		say(OK, "rp_filter", "replies may take any route");
}

static void check_ipv6(const struct interface *interface,
		       const struct settings *settings)
{
	const char *names[] = {interface->name, "lo"};
	bool v6 = false;
	int off;

	for (__u32 i = 0; i < settings->vips; i++)
		v6 |= !is_v4(&settings->vip[i]);
	for (__u32 i = 0; i < settings->vip_networks; i++)
		v6 |= !is_v4(&settings->vip_network[i].address);
	for (int i = 0; i < 2 && v6; i++)
		if (!read_sysctl(names[i], "ipv6/conf/%s/disable_ipv6", &off) &&
		    off)
			say(WRONG, "ipv6",
			    "switched off on %s, the VIP's packets are "
			    "dropped: sysctl -w "
			    "net/ipv6/conf/%s/disable_ipv6=0",
			    names[i], names[i]);
}

static void check_mtu(const struct interface *interface,
		      const struct settings *settings)
{
	unsigned int overhead = largest_overhead(settings);
	unsigned int mss = interface->mtu - overhead - 40;

	if (!settings->mss_v4)
		say(interface->mtu < 1500 + overhead ? NOTE : OK, "mtu",
		    "%u bytes carry packets of %u bytes in a tunnel; the MSS "
		    "is not clamped",
		    interface->mtu, interface->mtu - overhead);
	else if (settings->mss_v4 > mss)
		say(WRONG, "mtu",
		    "%u bytes carry packets of %u bytes in a tunnel, but an "
		    "MSS of %u is offered (%u would fit): raise the MTU, or "
		    "run setup again",
		    interface->mtu, interface->mtu - overhead, settings->mss_v4,
		    mss);
	else
		say(OK, "mtu",
		    "%u bytes carry packets of %u bytes in a tunnel; an MSS "
		    "of at most %u (IPv6: %u) is offered",
		    interface->mtu, interface->mtu - overhead, settings->mss_v4,
		    settings->mss_v6);
}

static void check_second_chance(const struct settings *settings,
				const uint64_t values[MEMBER_COUNTERS])
{
	struct member_config config = {};

	if (!settings->members)
		return;
	say(OK, "second chance",
	    "%" PRIu64 " packets handed on, %" PRIu64 " taken that others "
	    "handed on",
	    values[MEMBER_HANDED_ON], values[MEMBER_SECOND_CHANCE]);
	if (!find_sockets(&config))
		say(NOTE, "second chance",
		    "the kernel does not say what sockets in TIME-WAIT and "
		    "SYN-RECV have sent (no BTF): packets never count as a "
		    "closed connection's, and always as one's that is being "
		    "opened");
}

static void check_counters(const struct installed *installed)
{
	static const struct {
		enum member_counter counter;
		const char *text;
	} advice[] = {
		{MEMBER_PASSED_FRAGMENT,
		 "fragments of tunnel packets; raise the MTU between LB nodes "
		 "and members"},
		{MEMBER_PASSED_NOT_VIP, "tunnel packets to no VIP of this "
					"member; is a --vip missing?"},
		{MEMBER_DROP_SOURCE,
		 "tunnel packets from elsewhere dropped; is a --node missing, "
		 "or does somebody forge them?"},
		{MEMBER_DROP_MALFORMED, "malformed tunnel packets dropped"},
		{MEMBER_DROP_ECN,
		 "packets dropped because of congestion on the way here"},
		{MEMBER_DROP_FAILED, "packets that the kernel could not "
				     "change dropped; is memory short?"},
		{MEMBER_KEPT,
		 "packets of connections elsewhere kept, as their alternative "
		 "is in no network of members; is a --member missing?"},
	};
	uint64_t values[MEMBER_COUNTERS], taken = 0;

	if (read_counters(ingress_program(installed), values)) {
		say(WRONG, "counters", "they can't be read: run setup again");
		return;
	}
#define ADD(name, text, what) taken += values[MEMBER_##name];
	MEMBER_TAKEN_LIST(ADD)
#undef ADD
	say(taken ? OK : NOTE, "counters", "%" PRIu64 " packets taken", taken);
	check_second_chance(&installed->record.settings, values);
	for (size_t i = 0; i < sizeof(advice) / sizeof(*advice); i++)
		if (values[advice[i].counter])
			say(NOTE, "counters", "%" PRIu64 " %s",
			    values[advice[i].counter], advice[i].text);
}

static void check_probe(const struct installed *installed)
{
	char text[256];
	int tried = probe(&installed->record.settings,
			  ingress_program(installed), text, sizeof(text));

	if (tried < 0)
		say(WRONG, "probe", "%s", text);
	else
		say(tried ? OK : NOTE, "probe",
		    "%d packets through a copy of the program were rewritten "
		    "as expected",
		    tried);
}

static void check_arguments(struct arguments *arguments,
			    const struct interface *interface,
			    const struct settings *settings)
{
	if (!arguments->given)
		return;
	if (complete_settings(arguments, interface))
		say(WRONG, "arguments",
		    "setup would refuse them, see standard error");
	else if (memcmp(&arguments->settings, settings, sizeof(*settings)))
		say(WRONG, "arguments",
		    "the setup in force is another one: run setup");
	else
		say(OK, "arguments", "they match the setup in force");
}

static void check_all(struct arguments *arguments,
		      const struct interface *interface,
		      const struct installed *installed)
{
	const struct settings *settings = &installed->record.settings;
	bool complete;
	int count;

	if (ingress_program(installed) < 0) {
		say(WRONG, "programs", "nothing is set up on %s: run setup%s%s",
		    interface->name,
		    installed->foreign ? "; it has another " : "",
		    installed->foreign ? installed->foreign : "");
		return;
	}
	if (!installed->have_record || !is_known(&installed->record)) {
		say(WRONG, "programs",
		    "set up by another version of this tool: run setup again");
		return;
	}
	complete = check_programs(interface, installed);
	check_arguments(arguments, interface, settings);
	count = list_addresses(all, ADDRESSES_MAX);
	if (count < 0) {
		say(WRONG, "vip", "the host's addresses can't be read");
		return;
	}
	if (check_vips(settings, count))
		check_arp(interface);
	check_own(settings, count);
	check_paths(interface);
	check_ipv6(interface, settings);
	check_mtu(interface, settings);
	check_counters(installed);
	/* If one is missing, the probe would use another in its place. */
	if (complete)
		check_probe(installed);
	else
		say(NOTE, "probe", "not tried without all programs");
}

int check(struct arguments *arguments)
{
	struct interface interface;
	struct installed installed;

	as_json = arguments->json;
	if (find_interface(arguments->interface, &interface)) {
		complain("there is no interface %s", arguments->interface);
		return 1;
	}
	if (find_installed(&interface, &installed))
		return 1;
	if (as_json) {
		json_open('{', NULL);
		json_string("interface", interface.name);
		json_open('[', "findings");
	}
	check_all(arguments, &interface, &installed);
	if (as_json) {
		json_close(']');
		json_bool("ok", !problems);
		json_close('}');
		putchar('\n');
	}
	close_installed(&installed);
	return problems ? 1 : 0;
}
