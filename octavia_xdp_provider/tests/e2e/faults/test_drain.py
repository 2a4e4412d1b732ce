# SPDX-License-Identifier: Apache-2.0
"""A node that is drained: routers leave it, and nobody notices."""

from lab import paths
from lab import processes
from lab.control import octavia as lab_octavia
from lab.fabric import client
from lab.fabric import nodes
from lab.fabric import router
from octavia_xdp_provider.tests.e2e.support import base


class TestDrain(base.LabTestCase):

    def manage(self, *words):
        return processes.run(self.lab, paths.CONTROL, [
            paths.VENV / 'bin' / 'octavia-xdp-manage', '--config-file',
            lab_octavia.provider_configuration(self.lab), *words]).stdout

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
