# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-proxy-launcher: HAProxy processes of a proxy node."""

import sys

from octavia_xdp_provider.cmd import process
from octavia_xdp_provider.proxy.launcher import service


def main():
    return process.run('octavia-xdp-proxy-launcher', service.Launcher)


if __name__ == '__main__':
    sys.exit(main())
