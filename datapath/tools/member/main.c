// SPDX-License-Identifier: Apache-2.0
/* octavia-xdp-member: sets a member up, checks it, takes it back. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

void print_usage(FILE *out)
{
	fputs("usage: " PROGRAM " setup [OPTION]... INTERFACE\n"
	      "       " PROGRAM " check [--json] [OPTION]... INTERFACE\n"
	      "       " PROGRAM " show [--json] INTERFACE\n"
	      "       " PROGRAM " remove INTERFACE\n"
	      "  --config FILE     the same keys, one \"key = value\" a line;\n"
	      "                    keys without a value take yes or no\n"
	      "  --interface NAME  in a file: INTERFACE\n"
	      "  --vip ADDRESS     VIP whose packets are taken; repeatable\n"
	      "  --node NETWORK    where LB nodes send from; repeatable\n"
	      "  --any-source      the fabric sees to that\n"
	      "  --address A       where LB nodes send to; repeatable\n"
	      "                    (default: the interface's addresses)\n"
	      "  --port VIP:PORT/PROTOCOL=LOCAL\n"
	      "                    the listener's port and the server's;\n"
	      "                    tcp or udp; repeatable\n"
	      "  --dscp DSCP=VIP   packets to --address with it are the VIP's\n"
	      "  --mss auto|off|N  largest MSS offered over IPv4, in bytes\n"
	      "                    (IPv6: 20 less; default: auto, by the MTU)\n"
	      "  --tc              take packets at tc, not XDP\n"
	      "  --generic         XDP behind the driver: slower than --tc\n"
	      "  --no-address      do not put VIPs on lo\n"
	      "  --sysctl          set the interface's sysctls, too\n"
	      "setup run again makes it as the arguments say now. check with\n"
	      "options also says whether setup would change anything.\n"
	      "--help shows this.\n",
	      out);
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		int (*run)(struct arguments *);
		bool locks, json, options;
	} commands[] = {
		{"setup", setup, true, false, true},
		{"check", check, true, true, true},
		{"show", show, false, true, false},
		{"remove", remove_all, true, false, false},
	};
	static struct arguments arguments;

	catch_libbpf();
	if (read_arguments(&arguments, count, words))
		return 2;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(commands[i].name, arguments.command))
			continue;
		if (arguments.json && !commands[i].json) {
			complain("%s has no --json", arguments.command);
			return 2;
		}
		if (arguments.options && !commands[i].options) {
			complain("%s takes the interface and nothing else",
				 arguments.command);
			return 2;
		}
		if (commands[i].locks && lock())
			return 1;
		return commands[i].run(&arguments);
	}
	complain("%s: no such command", arguments.command);
	print_usage(stderr);
	return 2;
}
