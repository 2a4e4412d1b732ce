# SPDX-License-Identifier: Apache-2.0
"""A separate lab with all of Octavia and two LB nodes with real maps.

The controller's tables are in MariaDB. All load balancers are created through
Octavia's API.
"""

import contextlib
import ipaddress
import itertools
import threading

from bench.control import octavia as api
from lab import deployment
from lab import paths
from lab import processes
from lab import progress
from lab.control import octavia
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.config import options
from octavia_xdp_provider.node import run_directory

# Unused addresses: the benchmark sends no packets to members.
MEMBERS = ipaddress.ip_network('198.19.0.0/16')
CLIENTS = 10


class Cluster:
    """Octavia and two nodes with load balancers on them.

    :ivar ids: load balancers that exist as long as the lab.
    """

    def __init__(self, name, size, members):
        self.lab = paths.Lab(name)
        self.size = size
        self._members = members
        self._numbers = itertools.count()
        self.ids = []
        self.api = None

    @contextlib.contextmanager
    def running(self, keep=False):
        """Start and fill it; at the end remove all but its logs."""
        try:
            self._start()
            self._fill()
            yield self
        finally:
            if not keep:
                deployment.down(self.lab)

    def _start(self):
        # The installed default: measuring needs the log's INFO lines alone.
        deployment.up(self.lab, control_only=True,
                      provider_options={'DEFAULT': {'debug': False}})
        # Keep one controller, so that its log is complete.
        processes.stop(self.lab, octavia.SECOND_CONTROLLER)
        services = max(1024, 2 * self.size)
        topology.up(self.lab, {'datapath': {
            'services_max': services,
            'members_max': services * max(16, self._members)}})
        self.api = api.Api(self.lab)

    def _fill(self):
        with progress.step(f'{self.size} load balancers with '
                           f'{self._members} members each'):
            self.ids = self.create(self.size)

    def create(self, number):
        """Create load balancers from several clients and wait for them."""
        ids = together(range(number), lambda _: self.create_one())
        with contextlib.closing(api.Statuses(self.lab)) as statuses:
            statuses.wait(ids, 'ACTIVE', 600 + number, 0.1)
        return ids

    def create_one(self, populated=True):
        """Create a load balancer, waiting only for the API's answer."""
        number = next(self._numbers)
        if not populated:
            return self.api.create(f'bench-{number}')
        first = int(MEMBERS[256]) + number * self._members
        return self.api.create(f'bench-{number}', [
            str(ipaddress.ip_address(first + index))
            for index in range(self._members)])

    def tables(self, node):
        """Open the maps of a node for reading."""
        conf = options.load(
            config_files=[str(nodes.configuration(self.lab, node))])
        return run_directory.RunDirectory(conf).open_datapath()

    def controller_log(self):
        """Return the path of the controller's log."""
        return self.lab.logs / f'{octavia.DRIVER_AGENT}.log'


def together(items, function, clients=CLIENTS):
    """Call ``function`` for each item in several threads; return the results.

    :raises Failed: one of the calls failed.
    """
    waiting = iter(items)
    lock = threading.Lock()
    results, failures = [], []

    def work():
        while not failures:
            with lock:
                item = next(waiting, None)
            if item is None:
                return
            try:
                results.append(function(item))
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise api.Failed(str(failures[0])) from failures[0]
    return results
