# SPDX-License-Identifier: Apache-2.0
"""Calls with the credentials of a node or a hypervisor, by somebody who has
taken it over: each method, with arguments of any type and size."""

import inspect
import itertools

import oslo_messaging
import prometheus_client

from octavia_xdp_provider.controller import bounded_calls
from octavia_xdp_provider.controller import host_api
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import node_servers
from octavia_xdp_provider.controller import secrets_api
from octavia_xdp_provider.controller import vault
from octavia_xdp_provider.tests.unit.controller import reporting

WRONG = (None, True, -1, 2 ** 63, 2 ** 70, 1.5, float('inf'), '', '\x00',
         'x' * 100_000, [], [[]] * 1000, {}, {'': None}, {'x': {'y': [{}]}},
         {str(number): number for number in range(2000)})
HARMLESS = {'host': 'a', 'since': 0, 'after': None, 'ids': [], 'epoch': 'x',
            'seq': 1, 'report': {}, 'port': 'x', 'flows': [], 'names': []}


class TestWrongArguments(reporting.NodeApiTestCase):

    def stored(self):
        """All that others have: load balancers, and what nodes reported."""
        return repr((
            [(row.id, row.generation, row.document)
             for row in self.store.load_balancers.select()],
            [(row.host, row.state) for row in self.store.nodes.all()
             if row.host != 'a'],
            [(row.host, row.error) for row in self.store.placements.select(
                ['other'])]))

    def assert_harmless(self, endpoint):
        before = self.stored()
        bound = node_servers.BoundEndpoint(
            'a', endpoint, bounded_calls.Complaints(),
            metrics.Metrics(prometheus_client.CollectorRegistry()))
        for name, method in inspect.getmembers(endpoint, inspect.ismethod):
            if name.startswith('_'):
                continue
            arguments = inspect.signature(method).parameters.keys() - {
                'context'}
            for argument, value in itertools.product(sorted(arguments),
                                                     (*WRONG, 'b')):
                call = {key: HARMLESS[key] for key in arguments}
                call[argument] = value
                with self.subTest(name, argument=argument,
                                  value=str(value)[:20]):
                    try:
                        getattr(bound, name)({}, **call)
                    except oslo_messaging.ExpectedException:
                        continue  # refused
                    # The value may be valid for this argument.
                    self.assertNotEqual('host', argument)
        self.assertEqual(before, self.stored())

    def test_calls_of_nodes_are_refused_and_harm_nobody(self):
        self.assert_harmless(self.api)

    def test_calls_for_secrets_are_refused_and_harm_nobody(self):
        self.assert_harmless(secrets_api.SecretsEndpoint(
            self.store, vault.Vault(self.conf)))

    def test_signs_of_life_are_refused(self):
        self.assert_harmless(node_api.HeartbeatEndpoint(lambda host: None))

    def test_calls_of_hypervisors_are_refused_and_harm_nobody(self):
        self.store.hypervisors.register('a')
        self.assert_harmless(host_api.HostsEndpoint(
            self.load('[zero_touch]\nnode_networks = 192.0.2.0/24\n'),
            self.store, lambda: None))
