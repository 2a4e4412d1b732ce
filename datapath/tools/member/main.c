// SPDX-License-Identifier: Apache-2.0
/* octavia-xdp-member: sets up, checks and removes a member. */
#include <stdio.h>
#include <string.h>

#include "load/load.h"
#include "tool.h"

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

	catch_libbpf_messages();
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
