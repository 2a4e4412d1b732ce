# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-controller: wanted state, placement, statuses of Octavia."""

import sys

from octavia_xdp_provider.cmd import process
from octavia_xdp_provider.controller import service


def main():
    return process.run('octavia-xdp-controller', service.Controller)


if __name__ == '__main__':
    sys.exit(main())
