# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-announcer: started by ExaBGP, commands what it announces.

The process that ExaBGP starts is a supervisor; its child does the work.
"""

import argparse
import ipaddress
import logging
import sys

from octavia_xdp_provider.agent.bgp import announcer
from octavia_xdp_provider.agent.bgp import exabgp
from octavia_xdp_provider.process import supervisor

# Routes follow health within a second or two, also after a failure.
BACKOFF = supervisor.Backoff(first_s=0.1, max_s=2.0)


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog='octavia-xdp-announcer',
        description='Commands ExaBGP what to announce. It is a "process" of '
                    'ExaBGP and is of no use elsewhere.')
    result.add_argument(
        '--file', required=True,
        help='announcements.json in the run directory of the agent')
    result.add_argument(
        '--network', required=True, action='append',
        type=ipaddress.ip_network,
        help='network (CIDR) inside which prefixes are announced; repeatable')
    return result


def main() -> None:
    arguments = parser().parse_args()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr,
        format='octavia-xdp-announcer[%(process)d] %(levelname)s %(message)s')

    def work() -> None:
        speaker = exabgp.ExaBgp(sys.stdin.fileno(), sys.stdout.fileno())
        announcer.Announcer(arguments.file, arguments.network, speaker).run()

    supervisor.Supervisor('announcer', work, backoff=BACKOFF).run()


if __name__ == '__main__':
    main()
