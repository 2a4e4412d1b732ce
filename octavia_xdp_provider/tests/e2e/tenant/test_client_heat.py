# SPDX-License-Identifier: Apache-2.0
"""A load balancer by a template of Heat's."""

import pathlib
import tempfile

from lab.clients import heat
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.e2e.support import api
from octavia_xdp_provider.tests.support import form


@form.in_long_form
class TestHeat(api.ApiTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Here, as a test is inside of the lab's namespaces.
        heat.make()

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.database = str(pathlib.Path(folder.name) / 'heat.sqlite')
        self.parameters = {'subnet': self.subnet('vips-v4'),
                           'address': members.address('member1')}

    def stack(self, action, name, **parameters):
        words = [f'{key}={value}' for key, value
                 in {**self.parameters, **parameters}.items()]
        return heat.run(self.lab, self.database, action, name,
                        heat.TEMPLATE, *words)

    def objects(self, key):
        """Return the objects that the template changes, and their ids."""
        pool, = self.sdk.pools(loadbalancer_id=key)
        member, = self.sdk.members(pool)
        monitor = self.sdk.get_health_monitor(pool.health_monitor_id)
        return (pool.id, member.id, monitor.id), (member.weight,
                                                  monitor.delay)

    def test_a_stack_from_its_creation_to_its_deletion(self):
        made = self.stack('create', self.unique('heat'))
        key, vip = made['outputs']['balancer'], made['outputs']['vip']
        self.addCleanup(self.remove, key)
        self.assertEqual('COMPLETE', made['status'])
        service = datapath.Key(vip, 'TCP', 80)
        self.wait('nodes with the service', lambda: all(
            service in services for services in self.services(vip).values()))
        ids, values = self.objects(key)
        self.assertEqual((1, 5), values)

        # Nothing has changed, so Octavia is asked for nothing.
        before = self.tree(key)
        same = self.stack('update', made['id'])
        self.assertEqual(made['outputs'], same['outputs'])
        self.assertEqual(before, self.tree(key))

        # Changed objects keep their ids.
        changed = self.stack('update', made['id'], weight=7, delay=9)
        self.assertEqual(made['outputs'], changed['outputs'])
        self.assertEqual((ids, (7, 9)), self.objects(key))
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertEqual([7], [
                    member.weight for member in opened.members(service)])

        heat.run(self.lab, self.database, 'delete', made['id'])
        self.assertIsNone(self.sdk.find_load_balancer(key))
        self.wait('nodes without the VIP', lambda: not any(
            self.services(vip).values()))
