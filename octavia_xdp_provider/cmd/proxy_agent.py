# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-proxy-agent: makes a proxy node serve its load balancers."""

import sys

from octavia_xdp_provider.cmd import process
from octavia_xdp_provider.proxy.agent import service


def main():
    return process.run('octavia-xdp-proxy-agent', service.ProxyAgent)


if __name__ == '__main__':
    sys.exit(main())
