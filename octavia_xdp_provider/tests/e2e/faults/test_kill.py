# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of updates: packets flow, the state converges."""

import os
import shutil
import signal

from lab import processes
from lab.control import octavia as lab_octavia
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import shared
from octavia_xdp_provider.tests.e2e.support import updates
from octavia_xdp_provider.tests.models import maglev_model


class TestKill(shared.WebTestCase):

    def kill_during_updates(self, kill):
        """Kill in the middle of updates under load, and check all."""
        changes = updates.Updates(self.lab, self.pool, {
            member.name: member for member in self.sdk.members(self.pool)})
        with connections.Connections(
                self.lab, self.balancer.vip_address, number=50) as held, \
                client.Load(self.lab, self.url(self.balancer)) as load:
            begin = held.ask()
            with changes:
                self.wait_changes(changes)
                kill()
                self.wait_changes(changes)
            self.assertEqual('ACTIVE', self.wait_settled(self.balancer))
            self.assert_converged(changes.weights)
            # The table changed below these, and they are where they were.
            self.assertEqual(begin, held.ask())
        self.assertEqual([], load.answers.failures)
        self.assertGreater(load.answers.total, 20)
        return changes

    def wait_changes(self, changes):
        """Until some more of them were taken."""
        until = changes.count + 2
        self.wait('changes', lambda: changes.count >= until)

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

    def test_updates_go_on_after_the_death_of_the_other_controller(self):
        """It is not started again meanwhile: one is enough."""
        name = lab_octavia.SECOND_CONTROLLER
        self.addCleanup(lab_octavia.start_second_controller, self.lab)
        changes = self.kill_during_updates(
            lambda: processes.kill(self.lab, name))
        # But for a change that it was asked for at that moment.
        self.assertLessEqual(len(changes.errors), 1, changes.errors)

    def test_updates_converge_after_many_deaths(self):
        """Every process, at random moments, again and again."""
        def kill_all_in_turn():
            for process in (nodes.AGENT, nodes.RESULT_HANDLER,
                            nodes.HEALTH_CHECKER):
                self.killed('lb1', process)
                self.sleep(0.7)
                self.started('lb1', process)
                self.sleep(0.7)
            os.kill(self.controller_pid(), signal.SIGKILL)
        self.kill_during_updates(kill_all_in_turn)
        self.assert_health_works()

    def assert_health_works(self):
        """A member that dies after all this is found, and found again."""
        name = members.http_name('member1')
        self.end_server(name)
        self.wait_enabled(self.balancer, 3)
        self.start_server(name)
        self.wait_enabled(self.balancer, 4)


class TestReboot(shared.WebTestCase):

    OPTIONS = {'hosts': topology.MEMBERS[:2]}

    def reboot(self, node):
        """A node's processes end, and all that would be on a tmpfs."""
        self.addCleanup(self.started, node)
        nodes.stop(self.lab, node)
        shutil.rmtree(nodes.pin_directory(self.lab, node))
        for path in nodes.run_directory(self.lab, node).iterdir():
            if path.is_dir() and path.name != 'bpf':
                shutil.rmtree(path)
            elif not path.is_dir():
                path.unlink()
        self.started(node)
        self.wait_routes(self.balancer)
        self.wait_enabled(self.balancer, 3)

    def test_connections_find_their_members_on_nodes_without_state(self):
        """They began before a member was added, and come back with the routes
        of one node, and then of the other."""
        with connections.Connections(
                self.lab, self.balancer.vip_address, number=80) as held:
            begin = held.ask()
            self.assertEqual({'member1', 'member2'}, set(begin))
            self.add_member('member3')
            self.wait_enabled(self.balancer, 3)
            for node in topology.NODES:
                self.reboot(node)
                self.assertEqual(begin, held.ask(), node)
