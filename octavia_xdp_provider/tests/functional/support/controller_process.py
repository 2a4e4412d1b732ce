# SPDX-License-Identifier: Apache-2.0
"""A controller in a process of its own, whose Octavia is in the test's.

Reads one line from its standard input: JSON with the path of the
configuration, the names to be put into rpc, where the test's Octavia
listens, and whether it is one of the next release. Writes a line when it
serves.
"""

import json
from multiprocessing import managers
import secrets
import subprocess
import sys
import threading

import oslo_messaging

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import service
from octavia_xdp_provider.controller.octavia import client

NEXT_VERSION = '1.1'


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


def start(test, octavia, is_next=False):
    """A controller of its own, until the test ends, once it serves.

    :param test: control.ControlTestCase.
    :param is_next: whether it has NEXT_VERSION of the interfaces of drivers
        and of nodes.
    """
    # An abstract socket leaves no file.
    path, key = f'\0octavia-{test.unique}', secrets.token_bytes(16)
    serve(octavia, path, key)
    process = subprocess.Popen(
        [sys.executable, '-m', __name__],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True)

    def end():
        process.kill()
        process.communicate()
    test.addCleanup(end)
    process.stdin.write(json.dumps({
        'configuration': test.configure('first', '').default_config_files[0],
        'names': test.names(), 'path': path, 'key': key.hex(),
        'next': is_next}) + '\n')
    process.stdin.flush()
    test.assertEqual('serving\n', process.stdout.readline())


class _NextDriverEndpoint(driver_api.DriverEndpoint):
    """With an argument that drivers of today leave out."""

    target = oslo_messaging.Target(namespace=rpc.DRIVER_NAMESPACE,
                                   version=NEXT_VERSION)

    def change(self, context, change, request, deadline, reports_end,
               shiny_new=False):
        assert not shiny_new
        return super().change(context, change, request, deadline, reports_end)


class _NextNodesEndpoint(node_api.NodesEndpoint):
    """The same with one that nodes of today leave out."""

    target = oslo_messaging.Target(namespace=rpc.NODES_NAMESPACE,
                                   version=NEXT_VERSION)

    def fetch(self, context, host, since, after=None, shiny_new=False):
        assert not shiny_new
        return super().fetch(context, host, since, after)


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
    if wanted['next']:
        driver_api.DriverEndpoint = _NextDriverEndpoint
        node_api.NodesEndpoint = _NextNodesEndpoint
    controller = service.Controller(
        options.load(config_files=[wanted['configuration']]))

    def announce():
        controller.serving.wait()
        print('serving', flush=True)
    threading.Thread(target=announce, daemon=True).start()
    controller.run()


if __name__ == '__main__':
    main()
