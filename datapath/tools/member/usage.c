// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

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
	      "  --vip ADDRESS     VIP whose packets to accept; repeatable\n"
	      "  --vip-network NETWORK\n"
	      "                    the same for all addresses of a network,\n"
	      "                    which setup does not put on lo; repeatable\n"
	      "  --node NETWORK    that LB nodes send from; repeatable\n"
	      "  --any-source      the fabric filters them instead\n"
	      "  --member NETWORK  where other members of the VIPs are; "
	      "packets\n"
	      "                    of connections that are not here go on to\n"
	      "                    them; repeatable\n"
	      "  --address A       that LB nodes send to; repeatable\n"
	      "                    (default: the interface's addresses)\n"
	      "  --port VIP:PORT/PROTOCOL=LOCAL\n"
	      "                    the listener's port and the server's;\n"
	      "                    tcp or udp; repeatable\n"
	      "  --answer-port VIP:PORT/PROTOCOL=LOCAL\n"
	      "                    the same where LB nodes rewrite the port:\n"
	      "                    in answers alone; repeatable, also with\n"
	      "                    several LOCAL of one PORT\n"
	      "  --dscp DSCP=VIP   packets to --address with DSCP are for VIP\n"
	      "  --mss auto|off|N  largest MSS offered over IPv4, in bytes\n"
	      "                    (IPv6: 20 less; default: auto, by the MTU)\n"
	      "  --tc              take packets at tc, not XDP\n"
	      "  --generic         XDP behind the driver: slower than --tc\n"
	      "  --no-address      do not put VIPs on lo\n"
	      "  --sysctl          set the interface's sysctls, too\n"
	      "setup can be repeated with other arguments. check with\n"
	      "options also says whether setup would change anything.\n"
	      "--help shows this.\n",
	      out);
}
