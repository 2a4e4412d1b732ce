// SPDX-License-Identifier: Apache-2.0
/* Shows what is set up, as keys and values of a configuration file, and the
 * programs' counters. */
#include <inttypes.h>
#include <stdio.h>

#include "tool.h"

static const char *const counter_names[] = {
#define X(name, text, what) [MEMBER_##name] = text,
	MEMBER_COUNTER_LIST(X)
#undef X
};

static bool as_json;

static void begin_list(const char *name)
{
	if (as_json)
		json_open('[', name);
}

static void end_list(void)
{
	if (as_json)
		json_close(']');
}

static void print_item(const char *name, const char *value)
{
	if (as_json)
		json_string(NULL, value);
	else
		printf("%s = %s\n", name, value);
}

static void print_flag(const char *name, bool set)
{
	if (as_json)
		json_bool(name, set);
	else
		printf("%s = %s\n", name, set ? "yes" : "no");
}

static void show_ports(const struct settings *settings, const char *name,
		       bool answers_only)
{
	char text[RULE_TEXT];

	begin_list(name);
	for (__u32 i = 0; i < settings->ports; i++)
		if (settings->port[i].answers_only == answers_only)
			print_item(name, port_text(&settings->port[i], text));
	end_list();
}

static void show_lists(const struct settings *settings)
{
	char text[RULE_TEXT];

	begin_list("vip");
	for (__u32 i = 0; i < settings->vips; i++)
		print_item("vip", address_text(&settings->vip[i], text));
	end_list();
	begin_list("vip-network");
	for (__u32 i = 0; i < settings->vip_networks; i++)
		print_item("vip-network",
			   network_text(&settings->vip_network[i], text));
	end_list();
	begin_list("address");
	for (__u32 i = 0; i < settings->owns; i++)
		print_item("address", address_text(&settings->own[i], text));
	end_list();
	begin_list("node");
	for (__u32 i = 0; i < settings->nodes; i++)
		print_item("node", network_text(&settings->node[i], text));
	end_list();
	begin_list("member");
	for (__u32 i = 0; i < settings->members; i++)
		print_item("member", network_text(&settings->member[i], text));
	end_list();
	show_ports(settings, "port", false);
	show_ports(settings, "answer-port", true);
	begin_list("dscp");
	for (__u32 i = 0; i < settings->dscps; i++)
		print_item("dscp", dscp_text(&settings->dscp[i], text));
	end_list();
}

static void show_settings(const struct settings *settings)
{
	show_lists(settings);
	print_flag("tc", settings->mode == MODE_TC);
	print_flag("generic", settings->mode == MODE_GENERIC);
	print_flag("any-source", settings->flags & ANY_SOURCE);
	print_flag("no-address", settings->flags & NO_ADDRESS);
	print_flag("sysctl", settings->flags & SET_SYSCTL);
	if (as_json) {
		json_number("mss_v4", settings->mss_v4);
		json_number("mss_v6", settings->mss_v6);
	} else if (settings->mss_v4) {
		printf("mss = %u\n", settings->mss_v4);
	} else {
		puts("mss = off");
	}
}

static void show_counters(const uint64_t *values)
{
	if (as_json)
		json_open('{', "counters");
	else
		putchar('\n');
	for (int i = 0; i < MEMBER_COUNTERS; i++) {
		if (as_json)
			json_number(counter_names[i], values[i]);
		else
			printf("%s %" PRIu64 "\n", counter_names[i], values[i]);
	}
	if (as_json)
		json_close('}');
}

int show(struct arguments *arguments)
{
	uint64_t values[MEMBER_COUNTERS];
	struct interface interface;
	struct installed installed;
	int status = 1;

	if (find_interface(arguments->interface, &interface)) {
		complain("there is no interface %s", arguments->interface);
		return 1;
	}
	if (find_installed(&interface, &installed))
		return 1;
	as_json = arguments->json;
	if (ingress_program(&installed) < 0)
		complain("nothing is set up on %s", interface.name);
	else if (!installed.have_record || !is_known(&installed.record))
		complain("%s was set up by another version: run setup again",
			 interface.name);
	else if (read_counters(ingress_program(&installed), values))
		complain("%s: the counters can't be read", interface.name);
	else
		status = 0;
	if (!status) {
		if (as_json) {
			json_open('{', NULL);
			json_string("interface", interface.name);
		} else {
			printf("interface = %s\n", interface.name);
		}
		show_settings(&installed.record.settings);
		show_counters(values);
		if (as_json) {
			json_close('}');
			putchar('\n');
		}
	}
	close_installed(&installed);
	return status;
}
