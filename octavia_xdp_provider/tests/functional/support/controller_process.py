# SPDX-License-Identifier: Apache-2.0
"""A controller in a process of its own, whose Octavia is in the test's.

Reads one line from its standard input: JSON with the path of the
configuration, the names to be put into rpc, and where the test's Octavia
listens. Writes a line when it serves.
"""

import json
from multiprocessing import managers
import sys
import threading

from octavia_xdp_provider.common import options
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.controller import service
from octavia_xdp_provider.controller.octavia import client


class Manager(managers.BaseManager):
    """Serves one Octavia, or reaches it."""


def serve(octavia, path, key):
    """Let other processes reach an Octavia.

    :param path: of a socket that is made.
    """
    manager = Manager(address=path, authkey=key)
    Manager.register('octavia', callable=lambda: octavia)
    server = manager.get_server()
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    wanted = json.loads(sys.stdin.readline())
    for name, value in wanted['names'].items():
        setattr(rpc, name, value)
    Manager.register('octavia')
    manager = Manager(address=wanted['path'], authkey=bytes.fromhex(
        wanted['key']))
    manager.connect()
    octavia = manager.octavia()
    client.Octavia = lambda conf: octavia
    controller = service.Controller(
        options.load(config_files=[wanted['configuration']]))

    def announce():
        controller.serving.wait()
        print('serving', flush=True)
    threading.Thread(target=announce, daemon=True).start()
    controller.run()


if __name__ == '__main__':
    main()
