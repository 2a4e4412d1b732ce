# SPDX-License-Identifier: Apache-2.0
"""A deployment in one thread: the real driver, controllers on a real
database, the nodes' own code, and an Octavia in memory between them."""

import contextlib
import random
import sqlite3
import threading
import types
from unittest import mock

from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.driver import bounded_calls
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.tests.unit.controller import network
from octavia_xdp_provider.tests.unit.properties import clock
from octavia_xdp_provider.tests.unit.properties import node
from octavia_xdp_provider.tests.unit.properties import octavia
from octavia_xdp_provider.tests.unit.properties import process
from octavia_xdp_provider.tests.unit.properties import tenant

# Zones of the nodes: each load balancer can be in both.
ZONES = {'n1': 'east', 'n2': 'east', 'n3': 'west'}
NODES = tuple(ZONES)
CONTROLLERS = 2
# Seconds between two heartbeats.
STEP_S = 5
CONFIGURATION = """
[DEFAULT]
transport_url = fake://
[database]
connection = sqlite:///{path}
[vip]
allowed_networks = 203.0.113.0/24
# There is no Neutron.
any_network = true
[members]
allowed_networks = 198.18.0.0/15
[agent]
withdraw_grace = 0
[controller]
orphan_age = 60
orphan_removals_max = 100
[placement]
removal_budget_min = 1000
"""


class _Threads:
    """Replaces ``threading``; started threads wait for ``run``."""

    Lock = threading.Lock

    def __init__(self):
        self.started = []

    def Thread(self, target, **_named):
        def start():
            self.started.append(target)
        return types.SimpleNamespace(start=start)

    def run(self):
        """Run each thread until it sleeps or ends."""
        targets, self.started = self.started, []
        for target in targets:
            try:
                target()
            except clock.Asleep:
                self.started.append(target)


class _DriverClient:
    """Replaces rpc.DriverClient."""

    def __init__(self, calls):
        self._calls = calls

    def change(self, change, request, deadline, timeout_s, reports_end):
        return self._calls.change(change, request, deadline, reports_end)

    def cancel(self, request, timeout_s):
        self._calls.cancel(request)

    def ping(self, timeout_s):
        return self._calls.ping()['now']


class World:
    """The whole deployment.

    :param load: returns the configuration for a text.
    :param manager: returns the database's context manager for a
        configuration.
    """

    def __init__(self, directory, load, manager):
        # A failure here must undo the patches, as close() is not called.
        with contextlib.ExitStack() as stack:
            self._make(stack, directory, load, manager)
            self._stack = stack.pop_all()

    def _make(self, stack, directory, load, manager):
        self.clock = clock.Clock()
        self._threads = _Threads()
        self._path = f'{directory}/db.sqlite'
        self.conf = load(CONFIGURATION.format(path=self._path))
        stack.callback(controller_client.ControllerClient.forget)
        for patch in (
                *self.clock.patches(),
                mock.patch.object(bounded_calls, 'threading', self._threads),
                mock.patch.object(bounded_calls, 'within',
                                  lambda limit_s, function: function()),
                mock.patch.object(controller_client.options, 'load',
                                  lambda: self.conf),
                mock.patch.object(rpc, 'DriverClient', self._client)):
            stack.enter_context(patch)
        self.store = queries.Store(manager(self.conf, self._path))
        self.octavia = octavia.Octavia(self.clock)
        self.dead_members = set()
        self.source = random.Random(0)
        self._channels = []
        self._runs = 0
        self._is_restored = False
        self.controllers = [self._controller() for _ in range(CONTROLLERS)]
        self._to_driver = self._network(lambda controller: controller.driver)
        self.nodes = {host: node.Node(
            self.conf, self.clock, host, f'{directory}/{host}',
            self._network(lambda controller: controller.nodes),
            self._network(lambda controller: controller.heartbeats))
            for host in NODES}
        for host in NODES:
            self.store.nodes.register(host, zone=ZONES[host])
        self.zones = ZONES
        controller_client.ControllerClient.forget()
        self.tenant = tenant.Tenant(self.octavia,
                                    provider.XdpProviderDriver())

    def close(self):
        """Undo all patches."""
        self._stack.close()

    def _client(self, transport, version):
        return _DriverClient(self._to_driver)

    def _network(self, endpoint):
        channel = network.Network(self.source, lambda: [
            endpoint(controller) for controller in self.controllers
            if controller.alive])
        channel.faults = False
        self._channels.append(channel)
        return channel

    def _controller(self):
        self._runs += 1
        return process.Process(self.conf, self.store, self.octavia,
                               f'controller {self._runs}', self._notified)

    def _notified(self, hosts):
        """Notifications are lost: nodes have to fetch by themselves."""

    def seed(self, number):
        """Set the seed of all random decisions."""
        self.source = random.Random(number)
        for channel in self._channels:
            channel.source = self.source

    def set_faults(self, on):
        """Switch faults of messages (lost, repeated, late) on or off."""
        for channel in self._channels:
            channel.faults = on

    def deliver_late(self):
        for channel in self._channels:
            channel.deliver_late(1.0)

    # Work of the processes

    def act(self, function, *arguments):
        """Call a method of a controller, which may be killed during it."""
        with contextlib.suppress(process.Killed):
            return function(*arguments)
        return None

    def background(self):
        """Run the threads of octavia-api."""
        self._threads.run()

    def pass_time(self, seconds):
        """Let time pass, with heartbeats of nodes and steps of the leader."""
        while seconds > 0:
            self.clock.now += min(seconds, STEP_S)
            seconds -= STEP_S
            for controller in self.nodes.values():
                controller.heartbeat()
            for controller in self.controllers:
                self.act(controller.lead)

    def start_controllers(self):
        self.controllers = [
            controller if controller.alive else self._controller()
            for controller in self.controllers]

    # Backups of the controllers' database

    def backup(self):
        copy = sqlite3.connect(':memory:', check_same_thread=False)
        with contextlib.closing(sqlite3.connect(self._path)) as source:
            source.backup(copy)
        return copy

    def restore(self, copy):
        """Restore a backup while controllers are stopped."""
        for controller in self.controllers:
            controller.kill()
        with contextlib.closing(sqlite3.connect(self._path)) as target:
            copy.backup(target)
        self.start_controllers()
        self._is_restored = True

    # Quiet

    def settle(self, rounds=60):
        """End all faults, and run rounds until nothing is left to do.

        :returns: how many rounds it took, or None.
        """
        self.set_faults(False)
        self.octavia.available = self.octavia.answers = True
        for lb_node in self.controllers:
            lb_node.fuse = None
        self.start_controllers()
        for lb_node in self.nodes.values():
            lb_node.connected = lb_node.session = True
            if self._is_restored:
                lb_node.accept_database()
            elif not lb_node.running:
                lb_node.start()
        for key in self.octavia.transactions:
            self.octavia.end(key, True)
        quiet = 0
        for number in range(rounds):
            if self.round(number % 3 == 0) or not self._is_quiet():
                quiet = 0
            else:
                quiet += 1
            # Two resyncs with Octavia, and more than the leader's intervals.
            if quiet > 6:
                return number
        return None

    def round(self, resync=False):
        """Let every live process do all its work.

        :returns: how much the controllers had to do.
        """
        self.background()
        self.deliver_late()
        self.pass_time(10)
        for controller in self.nodes.values():
            controller.probe(self.dead_members)
            controller.turn()
        if resync:
            for controller in self.controllers:
                self.act(controller.resync)
        done = sum(self.act(controller.work) or 0
                   for controller in self.controllers)
        for controller in self.nodes.values():
            controller.turn()
        return done

    def _is_quiet(self):
        # Mending a spread waits for the settle time of nodes.
        trees = self.octavia.trees
        return self.store.sent_statuses.known().keys() == trees.keys() and all(
            status == 'ACTIVE' for tree in trees.values()
            for status in tree.values()) and not any(
                self.store.balance.in_one_zone(
                    rows.wanted(self.conf.placement)).values())
