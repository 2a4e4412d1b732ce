// SPDX-License-Identifier: Apache-2.0
/* The command line, and a file with the same keys: "key = value" lines. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define HELP 'h' /* only on the command line */

enum key {
	ADDRESS = 256,
	ANY_SOURCE_KEY,
	CONFIG,
	DSCP,
	GENERIC,
	INTERFACE,
	JSON,
	MEMBER,
	MSS,
	NODE,
	NO_ADDRESS_KEY,
	PORT,
	ANSWER_PORT,
	SYSCTL,
	TC,
	VIP,
	VIP_NETWORK,
};

static const struct option keys[] = {
	{"address", required_argument, NULL, ADDRESS},
	{"answer-port", required_argument, NULL, ANSWER_PORT},
	{"any-source", no_argument, NULL, ANY_SOURCE_KEY},
	{"config", required_argument, NULL, CONFIG},
	{"dscp", required_argument, NULL, DSCP},
	{"generic", no_argument, NULL, GENERIC},
	{"help", no_argument, NULL, HELP},
	{"interface", required_argument, NULL, INTERFACE},
	{"json", no_argument, NULL, JSON},
	{"member", required_argument, NULL, MEMBER},
	{"mss", required_argument, NULL, MSS},
	{"no-address", no_argument, NULL, NO_ADDRESS_KEY},
	{"node", required_argument, NULL, NODE},
	{"port", required_argument, NULL, PORT},
	{"sysctl", no_argument, NULL, SYSCTL},
	{"tc", no_argument, NULL, TC},
	{"vip", required_argument, NULL, VIP},
	{"vip-network", required_argument, NULL, VIP_NETWORK},
	{},
};

static int complain_full(const char *key, unsigned int most)
{
	return complain("%s: at most %u", key, most);
}

static int set_interface(struct arguments *arguments, const char *value)
{
	if (!*value || strlen(value) >= sizeof(arguments->interface) ||
	    strchr(value, '/'))
		return complain("%s is not an interface name", value);
	if (*arguments->interface && strcmp(arguments->interface, value))
		return complain("one interface at a time: %s or %s",
				arguments->interface, value);
	strcpy(arguments->interface, value);
	return 0;
}

static int set_mss(struct arguments *arguments, const char *value)
{
	long number = 0;

	if (!strcmp(value, "auto"))
		number = -1;
	else if (strcmp(value, "off") &&
		 parse_number(value, 536, 65495, &number))
		return complain("mss %s: must be auto, off or 536 to 65495 "
				"bytes",
				value);
	arguments->mss = number;
	arguments->settings.flags &= ~MSS_GIVEN;
	if (number >= 0)
		arguments->settings.flags |= MSS_GIVEN;
	return 0;
}

static int add_rule(struct arguments *arguments, enum key key,
		    const char *value)
{
	struct settings *settings = &arguments->settings;
	const char *name = key == PORT          ? "port"
			   : key == ANSWER_PORT ? "answer-port"
						: "dscp";
	const char *wrong;

	if (key == PORT || key == ANSWER_PORT) {
		struct port_rule *rule;

		if (settings->ports == MEMBER_PORTS_MAX)
			return complain_full("port and answer-port",
					     MEMBER_PORTS_MAX);
		rule = &settings->port[settings->ports];
		wrong = parse_port_rule(value, rule);
		rule->answers_only = key == ANSWER_PORT;
		settings->ports++;
	} else {
		if (settings->dscps == 2 * MEMBER_DSCPS)
			return complain_full("dscp", 2 * MEMBER_DSCPS);
		wrong = parse_dscp_rule(value,
					&settings->dscp[settings->dscps++]);
	}
	if (wrong)
		return complain("%s %s: %s", name, value, wrong);
	return 0;
}

static int add_network(const char *key, const char *value,
		       struct member_network *networks, __u32 *count,
		       __u32 most)
{
	if (*count == most)
		return complain_full(key, most);
	if (parse_network(value, &networks[(*count)++]))
		return complain("%s %s: no IPv4 or IPv6 network, or bits "
				"behind its prefix",
				key, value);
	return 0;
}

static int add_address(struct arguments *arguments, enum key key,
		       const char *value)
{
	struct settings *settings = &arguments->settings;

	switch (key) {
	case VIP:
		if (settings->vips == MEMBER_VIPS_MAX)
			return complain_full("vip", MEMBER_VIPS_MAX);
		if (parse_address(value, &settings->vip[settings->vips++]))
			return complain("vip %s: no IPv4 or IPv6 address",
					value);
		return 0;
	case ADDRESS:
		if (settings->owns == MEMBER_OWN_MAX)
			return complain_full("address", MEMBER_OWN_MAX);
		settings->flags |= OWN_GIVEN;
		if (parse_address(value, &settings->own[settings->owns++]))
			return complain("address %s: no IPv4 or IPv6 address",
					value);
		return 0;
	case VIP_NETWORK:
		return add_network("vip-network", value, settings->vip_network,
				   &settings->vip_networks,
				   MEMBER_VIP_NETWORKS_MAX);
	case MEMBER:
		return add_network("member", value, settings->member,
				   &settings->members, MEMBER_NODES_MAX);
	default:
		return add_network("node", value, settings->node,
				   &settings->nodes, MEMBER_NODES_MAX);
	}
}

static int read_file(struct arguments *arguments, const char *path);

static int set_key(struct arguments *arguments, enum key key, const char *value)
{
	__u32 *flags = &arguments->settings.flags;

	if (key != INTERFACE && key != JSON && key != CONFIG)
		arguments->given = true;
	switch (key) {
	case CONFIG:
		return read_file(arguments, value);
	case INTERFACE:
		return set_interface(arguments, value);
	case MSS:
		return set_mss(arguments, value);
	case PORT:
	case ANSWER_PORT:
	case DSCP:
		return add_rule(arguments, key, value);
	case ADDRESS:
	case MEMBER:
	case NODE:
	case VIP:
	case VIP_NETWORK:
		return add_address(arguments, key, value);
	case ANY_SOURCE_KEY:
		*flags |= ANY_SOURCE;
		return 0;
	case NO_ADDRESS_KEY:
		*flags |= NO_ADDRESS;
		return 0;
	case SYSCTL:
		*flags |= SET_SYSCTL;
		return 0;
	case GENERIC:
		arguments->generic = true;
		return 0;
	case TC:
		arguments->tc = true;
		return 0;
	case JSON:
		arguments->json = true;
		return 0;
	}
	return -1;
}

static char *stripped(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* Reads a line without its comment. Returns 0, or -1 after a message. */
static int read_line(struct arguments *arguments, char *line)
{
	char *key = stripped(line), *value = strchr(line, '=');

	if (!*key)
		return 0;
	if (!value)
		return complain("%s: must be \"key = value\"", key);
	*value++ = '\0';
	value = stripped(value);
	key = stripped(key);
	for (const struct option *one = keys; one->name; one++) {
		if (strcmp(one->name, key) || one->val == CONFIG ||
		    one->val == HELP || one->val == JSON)
			continue;
		if (one->has_arg == required_argument)
			return set_key(arguments, one->val, value);
		if (!strcmp(value, "yes"))
			return set_key(arguments, one->val, NULL);
		if (!strcmp(value, "no"))
			return 0;
		return complain("%s: must be yes or no", key);
	}
	return complain("%s: no such key", key);
}

static int read_file(struct arguments *arguments, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	int number = 0, status = 0;

	if (!file)
		return complain_status(-errno, "%s", path);
	while (!status && getline(&line, &size, file) >= 0) {
		number++;
		line[strcspn(line, "#\n")] = '\0';
		status = read_line(arguments, line);
	}
	if (status)
		complain("%s: line %d", path, number);
	else if (ferror(file))
		status = complain_status(-errno, "%s", path);
	free(line);
	fclose(file);
	return status;
}

int read_arguments(struct arguments *arguments, int count, char **words)
{
	int option;

	memset(arguments, 0, sizeof(*arguments));
	arguments->mss = -1;
	while ((option = getopt_long(count, words, "h", keys, NULL)) != -1) {
		if (option == '?')
			return -1;
		if (option == HELP) {
			print_usage(stdout);
			exit(0);
		}
		arguments->options |= option != CONFIG && option != INTERFACE &&
				      option != JSON;
		if (set_key(arguments, option, optarg))
			return -1;
	}
	if (optind == count) {
		print_usage(stderr);
		return -1;
	}
	arguments->command = words[optind++];
	if (optind < count && set_interface(arguments, words[optind++]))
		return -1;
	if (optind < count)
		return complain("%s: one word too many", words[optind]);
	if (!*arguments->interface)
		return complain("which interface?");
	if (arguments->generic && arguments->tc)
		return complain("--generic or --tc, not both");
	arguments->settings.mode = arguments->tc        ? MODE_TC
				   : arguments->generic ? MODE_GENERIC
							: MODE_XDP;
	return 0;
}
