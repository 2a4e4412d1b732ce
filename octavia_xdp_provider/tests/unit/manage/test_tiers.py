# SPDX-License-Identifier: Apache-2.0
"""Output of commands for load balancers that need proxy nodes."""

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.manage import base


class TestTiers(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        for number, host in enumerate(('p', 'q')):
            self.store.nodes.register(host, role=rows.PROXY,
                                      addresses=[f'192.0.2.{number + 1}'])
        for host in ('a', 'p', 'q'):
            self.seen(host, {})
        tree = unit.tree()
        tree['listeners']['web'] = {'protocol': 'HTTP', 'protocol_port': 81}
        self.store.load_balancers.create(spec.document('lb', tree))
        self.store.placements.place('lb', ['a'])

    def row(self):
        row, = self.listed('lb', 'list')
        return row['state'], row['problems']

    def place(self, weights, listeners=('web',)):
        self.store.placements.place('lb', weights)
        self.store.load_balancers.change('lb', lambda document: {
            **document, 'proxies': {'listeners': list(listeners), 'nodes': {
                host: {'addresses': ['192.0.2.1'], 'weight': weight}
                for host, weight in weights.items()}}})
        for host in ('a', 'p', 'q'):
            self.report_wanted(host)

    def test_listener_that_is_not_forwarded_yet_is_a_problem(self):
        self.place({'p': 1}, ())
        state, (problem,) = self.row()
        self.assertEqual('loading', state)
        self.assertIn('listener web: LB nodes do not forward it', problem)

    def test_failing_proxy_node_is_named(self):
        self.place({'p': 1})
        self.report_wanted('p', 'bad configuration')
        self.assertEqual(('failing', ['p: bad configuration']), self.row())

    def test_both_tiers_are_shown(self):
        self.place({'p': 1, 'q': 0})
        self.assertEqual(('ok', []), self.row())
        shown = self.listed('lb', 'show', 'lb')
        self.assertEqual(
            {'a': ('lb', True, None), 'p': ('proxy', None, 1),
             'q': ('proxy', None, 0)},
            {node['host']: (node['role'], node['announced'], node['weight'])
             for node in shown['nodes']})
        self.assertEqual({'listener': 'datapath', 'web': 'proxy'}, {
            listener['id']: listener['tier']
            for listener in shown['listeners']})
