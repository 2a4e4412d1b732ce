# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-agent: makes an LB node what the controller wants it to be."""

import sys

from octavia_xdp_provider.agent import service
from octavia_xdp_provider.cmd import process


def main():
    return process.run('octavia-xdp-agent', service.Agent)


if __name__ == '__main__':
    sys.exit(main())
