# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-manage: the operator's command on a control host."""

import sys

from octavia_xdp_provider.manage import app


def main():
    return app.main(sys.argv[1:])


if __name__ == '__main__':
    sys.exit(main())
