# SPDX-License-Identifier: Apache-2.0
"""A node that is drained: routers leave it, and nobody notices."""

from lab import background
from lab import paths
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import shared
from octavia_xdp_provider.tests.support import form

IDLE_S = 12  # slots close so long after the last old flow
HELD = 60


class AskedAgain(background.Background):
    """Connections that are not silent meanwhile; who answered, each time."""

    def __init__(self, held):
        super().__init__()
        self.answers = []
        self._held = held

    def work(self):
        while not self.ending.wait(1):
            self.answers.append(self._held.ask())


class TestDrain(shared.WebTestCase):

    def drain(self):
        self.addCleanup(self.manage, 'node', 'enable', 'lb1')
        self.manage('node', 'drain', 'lb1')

    def test_routers_use_the_other_node_and_no_request_fails(self):
        """As long as there is another one."""
        with client.Load(self.lab, self.url(self.balancer)) as load:
            self.drain()
            self.wait_routes(self.balancer, ['lb2'])
            self.assertIn('draining',
                          self.manage('lb', 'show', self.balancer.name))
            self.assertEqual(
                ['lb1', 'lb2'],
                router.announced_by(self.lab, self.balancer.vip_address))
            self.manage('node', 'enable', 'lb1')
            self.wait_routes(self.balancer)
            self.manage('node', 'drain', 'lb1')
            self.wait_routes(self.balancer, ['lb2'])
        self.assertEqual([], load.answers.failures)
        self.killed('lb2', nodes.EXABGP)
        self.wait_routes(self.balancer, ['lb1'])
        self.check_requests(50)

    @form.in_long_form
    def test_it_waits_until_flows_can_be_moved(self):
        balancer, _, pool, _ = self.create_web(
            hosts=topology.MEMBERS[:2], balancer_options={
                'flavor_id': self.create_flavor(idle_timeout=IDLE_S)})
        with connections.Connections(
                self.lab, balancer.vip_address, number=HELD) as held:
            begin = held.ask()
            with AskedAgain(held) as asked:
                later = self.change_and_connect(balancer, pool)
                between = later.ask()
        self.assertIn('member3', between)
        self.assertEqual([begin] * len(asked.answers), asked.answers)
        # These began in open slots, which the other node cannot know: their
        # slots have to close before the router moves them.
        self.drain()
        self.wait_routes(balancer, ['lb2'])
        self.assertEqual(between, later.ask())

    def change_and_connect(self, balancer, pool):
        """Connections from after a change that nodes have open slots of."""
        self.create_member(pool, 'member3')
        self.wait_active(balancer)
        # At once: no node has reported anything of it yet.
        with self.assertRaises(paths.LabError) as refused:
            self.manage('node', 'drain', 'lb1', '--settle-timeout', '1')
        self.assertIn(f'{balancer.id} on lb', str(refused.exception))
        self.assertIn('lb1 is as it was', str(refused.exception))
        self.wait_routes(balancer)
        self.wait_enabled(balancer, 3)
        self.wait('open slots', lambda: balancer.id in self.manage(
            'node', 'open-slots'))
        return self.enterContext(connections.Connections(
            self.lab, balancer.vip_address, number=HELD))
