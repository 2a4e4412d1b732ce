# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-result-handler: health results into the lookup tables."""

import sys

from octavia_xdp_provider.cmd import process
from octavia_xdp_provider.result_handler import handler


def main():
    return process.run('octavia-xdp-result-handler', handler.ResultHandler)


if __name__ == '__main__':
    sys.exit(main())
