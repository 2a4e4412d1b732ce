# SPDX-License-Identifier: Apache-2.0
"""A node that is drained: routers leave it, and nobody notices."""

import contextlib
import threading

from lab import paths
from lab import processes
from lab.control import octavia as lab_octavia
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base

IDLE_S = 12  # slots close so long after the last old flow
HELD = 60


@contextlib.contextmanager
def asked_again(held):
    """Connections that are not silent meanwhile; who answered, each time."""
    answers, end = [], threading.Event()

    def ask():
        while not end.wait(1):
            answers.append(held.ask())
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        end.set()
        thread.join()


class TestDrain(base.LabTestCase):

    def manage(self, *words, check=True):
        done = processes.run(self.lab, paths.CONTROL, [
            paths.VENV / 'bin' / 'octavia-xdp-manage', '--config-file',
            lab_octavia.provider_configuration(self.lab), *words],
            check=check)
        return done.stdout if check else done.stderr

    def setUp(self):
        super().setUp()
        self.balancer, *_ = self.create_web()
        self.addCleanup(self.manage, 'node', 'enable', 'lb1')

    def test_routers_use_the_other_node_and_no_request_fails(self):
        with client.Load(self.lab, self.url(self.balancer)) as load:
            self.manage('node', 'drain', 'lb1')
            self.wait_routes(self.balancer, ['lb2'])
            self.assertIn('draining',
                          self.manage('lb', 'show', self.balancer.name))
            self.manage('node', 'enable', 'lb1')
            self.wait_routes(self.balancer)
        self.assertEqual([], load.answers.failures)

    def test_a_drained_node_is_there_if_there_is_no_other(self):
        self.manage('node', 'drain', 'lb1')
        self.wait_routes(self.balancer, ['lb2'])
        self.assertEqual(
            ['lb1', 'lb2'],
            router.announced_by(self.lab, self.balancer.vip_address))
        self.addCleanup(self.started, 'lb2', nodes.EXABGP)
        nodes.kill(self.lab, 'lb2', nodes.EXABGP)
        self.wait_routes(self.balancer, ['lb1'])
        self.assertFalse(client.requests(
            self.lab, self.url(self.balancer), 20).failures)

    def test_it_waits_until_flows_can_be_moved(self):
        balancer, _, pool, _ = self.create_web(
            hosts=topology.MEMBERS[:2], balancer_options={
                'flavor_id': self.create_flavor(idle_timeout=IDLE_S)})
        with connections.Connections(
                self.lab, balancer.vip_address, number=HELD) as held:
            begin = held.ask()
            with asked_again(held) as answers:
                later = self.change_and_connect(balancer, pool)
                between = later.ask()
        self.assertIn('member3', between)
        self.assertEqual([begin] * len(answers), answers)
        # These began in open slots, which the other node cannot know: their
        # slots have to close before the router moves them.
        self.manage('node', 'drain', 'lb1')
        self.wait_routes(balancer, ['lb2'])
        self.assertEqual(between, later.ask())

    def change_and_connect(self, balancer, pool):
        """Connections from after a change that nodes have open slots of."""
        self.create_member(pool, 'member3')
        self.wait_active(balancer)
        # At once: no node has reported anything of it yet.
        said = self.manage('node', 'drain', 'lb1', '--settle-timeout', '1',
                           check=False)
        self.assertIn(f'{balancer.id} on lb', said)
        self.assertIn('lb1 is as it was', said)
        self.wait_routes(balancer)
        self.wait_enabled(balancer, 3)
        self.wait('open slots', lambda: balancer.id in self.manage(
            'node', 'open-slots'))
        return self.enterContext(connections.Connections(
            self.lab, balancer.vip_address, number=HELD))
