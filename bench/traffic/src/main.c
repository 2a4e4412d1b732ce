// SPDX-License-Identifier: Apache-2.0
/*
 * octavia-xdp-traffic send SETTINGS RESULT
 * octavia-xdp-traffic receive INTERFACE...
 *
 * Commands are lines of standard input, answers lines of JSON; format.h
 * describes files. `send` and `receive` end with standard input.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "load/load.h"
#include "process.h"

int main(int count, char **arguments)
{
	catch_libbpf_messages();
	signal(SIGPIPE, SIG_IGN);
	if (count == 4 && !strcmp(arguments[1], "send"))
		return send_main(count - 2, arguments + 2);
	if (count > 2 && !strcmp(arguments[1], "receive"))
		return receive_main(count - 2, arguments + 2);
	fprintf(stderr, "usage: octavia-xdp-traffic send SETTINGS RESULT\n"
			"       octavia-xdp-traffic receive INTERFACE...\n");
	return 2;
}
