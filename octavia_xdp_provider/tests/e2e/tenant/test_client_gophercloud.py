# SPDX-License-Identifier: Apache-2.0
"""A load balancer by gophercloud, on which tools in Go stand."""

import json
import unittest

from lab import paths
from lab.clients import go
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.e2e.support import api
from octavia_xdp_provider.tests.support import form


@form.in_long_form
@unittest.skipUnless(go.compiler(), 'there is no Go')
class TestGophercloud(api.ApiTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Here, as a test is inside of the lab's namespaces.
        cls.program = go.build('gophercloud')

    def call(self, *words):
        said = go.run(self.lab, self.program, *words)
        return json.loads(said) if said else None

    def test_a_load_balancer_from_its_creation_to_its_deletion(self):
        name = self.unique('gophercloud')
        hosts = topology.MEMBERS[:2]
        made = self.call('create', name, self.subnet('vips-v4'),
                         *map(members.address, hosts))
        self.addCleanup(self.remove, made['id'])
        vip = made['vip_address']
        self.assertEqual(('xdp', 'ACTIVE'), (
            made['provider'], made['provisioning_status']))
        key = datapath.Key(vip, 'TCP', 80)
        self.wait('members that take flows', lambda: all(
            key in services and services[key].enabled == len(hosts)
            for services in self.services(vip).values()))

        self.assertIn(made['id'], [entry['id'] for entry in self.call('list')])

        changed = self.call('update', made['id'])
        self.assertEqual('changed', changed['description'])
        self.check_changes(made['id'], vip)

        self.assertIsNone(self.call('delete', made['id']))
        self.assertIsNone(self.sdk.find_load_balancer(made['id']))
        self.wait('nodes without the VIP', lambda: not any(
            self.services(vip).values()))

    def check_changes(self, key, vip):
        """Check Octavia's state after the update, and the nodes'."""
        listener, = self.sdk.listeners(load_balancer_id=key)
        self.assertEqual(['198.18.0.0/15'], listener.allowed_cidrs)
        pool, = self.sdk.pools(loadbalancer_id=key)
        self.assertEqual('SOURCE_IP', pool.lb_algorithm)
        self.assertEqual([1, 5], sorted(
            member.weight for member in self.sdk.members(pool)))
        monitor = self.sdk.get_health_monitor(pool.health_monitor_id)
        self.assertEqual(3, monitor.delay)
        service = datapath.Key(vip, 'TCP', 80)
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertEqual([1, 5], sorted(
                    member.weight for member in opened.members(service)))

    def test_a_refusal_reaches_the_user(self):
        """Its words, and no load balancer that stays behind."""
        name = self.unique('refused')
        with self.assertRaisesRegex(paths.LabError, 'outside the networks'):
            self.call('create', name, self.subnet('members-v4'),
                      members.address('member1'))
        self.assertNotIn(name, [entry['name'] for entry in self.call('list')])
