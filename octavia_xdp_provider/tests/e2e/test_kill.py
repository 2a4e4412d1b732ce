# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of updates: packets flow, the state converges."""

import os
import signal
import threading

from openstack import exceptions

from lab import fabric
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import members
from lab.fabric import nodes
from octavia_xdp_provider.tests.e2e import base
from octavia_xdp_provider.tests.unit import maglev_model


class Updates(threading.Thread):
    """Changes members' weights one after the other, until told to stop."""

    def __init__(self, test, balancer, pool, made):
        super().__init__()
        self._test = test
        self._balancer = balancer
        self._pool = pool
        self._made = made
        self._end = threading.Event()
        self.weights = dict.fromkeys(made, 1)
        self.errors = []
        self.count = 0

    def run(self):
        with base.namespaces.inside(self._test.lab, base.paths.CONTROL):
            sdk = base.cloud.connect(self._test.lab).load_balancer
            hosts = sorted(self._made)
            while not self._end.is_set():
                host = hosts[self.count % len(hosts)]
                weight = 1 + self.count % 9
                try:
                    sdk.update_member(self._made[host], self._pool,
                                      weight=weight)
                except exceptions.ConflictException:
                    # The last update is still under way.
                    self._end.wait(0.1)
                    continue
                except exceptions.SDKException as error:
                    # Refused as a whole: nothing may have changed.
                    self.errors.append(str(error))
                else:
                    self.weights[host] = weight
                self.count += 1
                self._end.wait(0.05)

    def stop(self):
        self._end.set()
        self.join()


class TestKill(base.LabTestCase):

    def setUp(self):
        super().setUp()
        self.balancer, _, self.pool, self.made = self.create_web()

    def kill_during_updates(self, kill, revive, downtime=3):
        """Kill in the middle of updates under load, revive, check all."""
        updates = Updates(self, self.balancer, self.pool, self.made)
        with connections.Connections(
                self.lab, self.balancer.vip_address, number=50) as held, \
                client.Load(self.lab, self.url(self.balancer)) as load:
            begin = held.ask()
            updates.start()
            try:
                self.sleep(1.5)
                kill()
                self.sleep(downtime)
                revive()
                self.sleep(2)
            finally:
                updates.stop()
            self.assertEqual('ACTIVE', self.wait_settled(self.balancer))
            self.assert_converged(updates.weights)
            # The table changed below these, and they are where they were.
            self.assertEqual(begin, held.ask())
        self.assertGreater(updates.count, 1)
        self.assertEqual([], load.answers.failures)
        self.assertGreater(load.answers.total, 20)
        return updates

    def assert_converged(self, weights):
        model = maglev_model.populate(
            {members.address(host): weight
             for host, weight in weights.items()}, 13313)
        key = self.key(self.balancer)
        for node in fabric.NODES:
            with self.datapath(node) as opened:
                self.wait(f'{node} converged',
                          lambda opened=opened: opened.table(key) == model)
                self.assertEqual([], opened.faults())
        self.wait_routes(self.balancer)

    def kill_process(self, process):
        for node in fabric.NODES:
            nodes.kill(self.lab, node, process)

    def revive(self, process):
        for node in fabric.NODES:
            self.started(node, process)

    def check(self, process):
        self.addCleanup(self.revive, process)
        return self.kill_during_updates(
            lambda: self.kill_process(process),
            lambda: self.revive(process))

    def test_agent(self):
        self.check(nodes.AGENT)

    def test_result_handler(self):
        self.check(nodes.RESULT_HANDLER)
        self.assert_health_works()

    def test_health_checker(self):
        self.check(nodes.HEALTH_CHECKER)
        self.assert_health_works()

    def test_controller(self):
        """octavia-driver-agent's provider agent starts it again."""
        killed = self.controller_pid()

        def restarted():
            self.wait('a new controller', lambda: (
                self.controller_pid() not in (None, killed)))
        self.kill_during_updates(
            lambda: os.kill(killed, signal.SIGKILL), restarted)

    def test_many_times(self):
        """Every process, at random moments, again and again."""
        for _ in range(3):
            for process in (nodes.AGENT, nodes.RESULT_HANDLER,
                            nodes.HEALTH_CHECKER):
                self.addCleanup(self.revive, process)

        def kill_all_in_turn():
            for process in (nodes.AGENT, nodes.RESULT_HANDLER,
                            nodes.HEALTH_CHECKER):
                nodes.kill(self.lab, 'lb1', process)
                self.sleep(0.7)
                self.started('lb1', process)
                self.sleep(0.7)
            controller = self.controller_pid()
            if controller:
                os.kill(controller, signal.SIGKILL)
        self.kill_during_updates(kill_all_in_turn, lambda: None)

    def assert_health_works(self):
        """A member that dies after all this is found, and found again."""
        name = members.http_name('member1')
        base.processes.kill(self.lab, name, signal.SIGTERM)
        try:
            for node in fabric.NODES:
                self.wait(f'3 members on {node}', lambda node=node: (
                    self.enabled(node, self.balancer) == 3), 20)
        finally:
            self.wait('end of the server', lambda: not
                      base.processes.alive(self.lab, name))
            base.processes.restart(self.lab, name)
        for node in fabric.NODES:
            self.wait(f'4 members on {node}', lambda node=node: (
                self.enabled(node, self.balancer) == 4), 20)
