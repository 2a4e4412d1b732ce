# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-proxy-agent: makes a proxy node serve its load balancers."""

import sys

from octavia_xdp_provider.cmd import process
from octavia_xdp_provider.proxy.agent import service
from octavia_xdp_provider.proxy.secrets import own_key

# Prints the key for "octavia-xdp-manage node create --public-key".
_PUBLIC_KEY = '--public-key'


def main():
    if _PUBLIC_KEY in sys.argv:
        return print_public_key([argument for argument in sys.argv[1:]
                                 if argument != _PUBLIC_KEY])
    return process.run('octavia-xdp-proxy-agent', service.ProxyAgent)


def print_public_key(argv):
    """Print the public key of this node, which is made if there is none."""
    conf = process.load('octavia-xdp-proxy-agent', argv)
    try:
        print(own_key.public_key(conf.proxy.state_directory))
    except OSError as error:
        print(f'octavia-xdp-proxy-agent: there is no key: {error}. It is made '
              'in [proxy] state_directory by the agent\'s user or root; '
              'start the agent once if the directory is missing',
              file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
