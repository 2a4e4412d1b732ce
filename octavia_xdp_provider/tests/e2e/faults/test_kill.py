# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of updates: packets flow, the state converges."""

import os
import signal

from lab import processes
from lab.control import octavia as lab_octavia
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import updates
from octavia_xdp_provider.tests.models import maglev_model
from octavia_xdp_provider.tests.support import form


class TestKill(base.LabTestCase):

    def setUp(self):
        super().setUp()
        self.balancer, _, self.pool, self.made = self.create_web()

    def kill_during_updates(self, kill, revive, downtime=3):
        """Kill in the middle of updates under load, revive, check all."""
        changes = updates.Updates(self.lab, self.pool, self.made)
        with connections.Connections(
                self.lab, self.balancer.vip_address, number=50) as held, \
                client.Load(self.lab, self.url(self.balancer)) as load:
            begin = held.ask()
            with changes:
                self.sleep(1.5)
                kill()
                self.sleep(downtime)
                revive()
                self.sleep(2)
            self.assertEqual('ACTIVE', self.wait_settled(self.balancer))
            self.assert_converged(changes.weights)
            # The table changed below these, and they are where they were.
            self.assertEqual(begin, held.ask())
        self.assertGreater(changes.count, 1)
        self.assertEqual([], load.answers.failures)
        self.assertGreater(load.answers.total, 20)
        return changes

    def assert_converged(self, weights):
        by_address = {members.address(host): weight
                      for host, weight in weights.items()}
        model = maglev_model.populate(
            by_address, maglev_model.slot_count(by_address))
        key = self.key(self.balancer)
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.wait(f'{node} converged',
                          lambda opened=opened: opened.table(key) == model)
                self.assertEqual([], opened.faults())
        self.wait_routes(self.balancer)

    def kill_process(self, process):
        for node in topology.NODES:
            nodes.kill(self.lab, node, process)

    def revive(self, process):
        for node in topology.NODES:
            self.started(node, process)

    def check(self, process):
        self.addCleanup(self.revive, process)
        return self.kill_during_updates(
            lambda: self.kill_process(process),
            lambda: self.revive(process))

    @form.in_long_form
    def test_updates_converge_after_the_death_of_the_agents(self):
        self.check(nodes.AGENT)

    @form.in_long_form
    def test_updates_converge_after_the_death_of_the_result_handlers(self):
        self.check(nodes.RESULT_HANDLER)
        self.assert_health_works()

    @form.in_long_form
    def test_updates_converge_after_the_death_of_the_health_checkers(self):
        self.check(nodes.HEALTH_CHECKER)
        self.assert_health_works()

    @form.in_long_form
    def test_updates_converge_after_the_death_of_the_controller(self):
        """octavia-driver-agent's provider agent starts it again."""
        killed = self.controller_pid()

        def restarted():
            self.wait('a new controller', lambda: (
                self.controller_pid() not in (None, killed)))
        self.kill_during_updates(
            lambda: os.kill(killed, signal.SIGKILL), restarted)

    def test_updates_go_on_after_the_death_of_the_other_controller(self):
        """It is not started again meanwhile: one is enough."""
        name = lab_octavia.SECOND_CONTROLLER
        self.addCleanup(lab_octavia.start_second_controller, self.lab)
        changes = self.kill_during_updates(
            lambda: processes.kill(self.lab, name), lambda: None)
        # But for a change that it was asked for at that moment.
        self.assertLessEqual(len(changes.errors), 1, changes.errors)

    def test_updates_converge_after_many_deaths(self):
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
        self.assert_health_works()

    def assert_health_works(self):
        """A member that dies after all this is found, and found again."""
        name = members.http_name('member1')
        processes.kill(self.lab, name, signal.SIGTERM)
        try:
            self.wait_enabled(self.balancer, 3, timeout=20)
        finally:
            self.wait('end of the server', lambda: not
                      processes.alive(self.lab, name))
            processes.restart(self.lab, name)
        self.wait_enabled(self.balancer, 4, timeout=20)
