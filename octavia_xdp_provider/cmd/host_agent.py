# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-host-agent: makes a hypervisor serve members in its VMs."""

import sys

from octavia_xdp_provider.cmd import process
from octavia_xdp_provider.host import service


def main():
    return process.run('octavia-xdp-host-agent', service.HostAgent)


if __name__ == '__main__':
    sys.exit(main())
