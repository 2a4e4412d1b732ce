# SPDX-License-Identifier: Apache-2.0
"""Commands show and change on which proxy nodes load balancers are."""

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.manage import operating

LB_NODES, PROXIES = ('a1', 'b1'), ('pa1', 'pa2', 'pb1')


class TestProxyPlacements(operating.OperatorTestCase):
    """Zones a and b; the second letter of a proxy node's name is its zone."""

    def setUp(self):
        super().setUp()
        self.configure('replicas = 2\nproxy_drain_time = 0\n')
        self.conf.reload_config_files()
        for host in LB_NODES:
            self.store.nodes.register(host, zone=host[0])
        for number, host in enumerate(PROXIES):
            self.store.nodes.register(
                host, zone=host[1], role=rows.PROXY,
                addresses=[f'198.51.100.{number + 1}'])
        tree = unit.tree()
        tree['listeners']['listener']['protocol'] = 'HTTP'
        self.store.load_balancers.create(spec.document('lb', tree))

    def place(self, *hosts):
        self.store.placements.place('lb', hosts)
        self.announcing = None
        self.report(*hosts)

    def problems(self):
        row, = self.listed('lb', 'list', '--problems')
        return row['state'], row['problems']

    def test_nodes_that_refuse_are_those_of_the_role_that_lacks(self):
        self.place(*LB_NODES)
        self.set_conditions(pa1='live', pa2='dead', pb1='silent')
        self.assertEqual(('without a proxy node', [
            'pa2: the node is dead', 'pb1: the node is silent']),
            self.problems())
        self.assertEqual({'pa2', 'pb1'}, {
            row['host'] for row
            in self.listed('lb', 'show', 'lb')['refused_by']} & {*PROXIES})

    def test_proxies_in_one_zone_are_a_problem(self):
        self.place(*LB_NODES, 'pa1', 'pa2')
        self.set_conditions(a1='live', b1='live', pa1='live', pa2='live',
                            pb1='dead')
        self.store.load_balancers.change('lb', lambda document: {
            **document, 'proxies': {'listeners': ['listener'], 'nodes': {}}})
        self.report(*LB_NODES, 'pa1', 'pa2')
        self.assertEqual(('in one zone', [
            "all its proxy nodes are in zone 'a'; no other zone can take "
            'it: pb1: the node is dead']), self.problems())
        self.assertEqual({'a': 1, 'b': 0}, {
            row['zone']: row['only_here']
            for row in self.listed('zone', 'list')})

    def test_roles_of_placements_are_listed(self):
        self.place('a1', 'pa1')
        self.assertEqual({'a1': 'lb', 'pa1': 'proxy'}, {
            row['host']: row['role']
            for row in self.listed('placement', 'list')})

    def test_move_stays_within_a_role(self):
        self.place(*LB_NODES, 'pa1', 'pb1')
        self.set_conditions(pa2='live')
        self.assertIn('a1 is no proxy node', self.refused(
            'lb', 'move', 'lb', '--from', 'pa1', '--to', 'a1'))
        self.assertIn('pa2 is no LB node', self.refused(
            'lb', 'move', 'lb', '--from', 'a1', '--to', 'pa2'))
        self.done('lb', 'move', 'lb', '--from', 'pa1', '--to', 'pa2')
        self.assertIn('pa2', self.hosts('lb'))

    def test_proxy_node_is_drained_while_lb_nodes_have_open_slots(self):
        self.place(*LB_NODES, 'pa1', 'pb1')
        self.open_slots = {'slots': 1, 'load_balancers': {'lb': 7},
                           'more': 0}
        self.report(*LB_NODES)
        self.done('node', 'drain', 'pa1', '--settle-timeout', '0')
        self.refused('node', 'drain', 'a1', '--settle-timeout', '0')
        self.assertEqual({'pa1'}, {node.host for node
                                   in self.store.nodes.all()
                                   if not node.in_service})

    def test_zone_is_drained_of_proxies_as_well(self):
        self.place(*LB_NODES, 'pa1', 'pb1')
        self.store.nodes.register('b2', zone='b')
        self.store.nodes.register('pb2', zone='b', role=rows.PROXY,
                                  addresses=['198.51.100.9'])
        every = (*LB_NODES, 'b2', *PROXIES, 'pb2')
        status, _, err = self.while_nodes_work(
            every, lambda: self.run_command('zone', 'drain', 'a', '--wait'))
        self.assertEqual(0, status, err)
        self.assertEqual(['b1', 'b2', 'pb1', 'pb2'], self.hosts('lb'))

    def test_proxies_are_rebalanced_apart_from_lb_nodes(self):
        """pa1 has all load balancers, and pa2 none."""
        self.configure('replicas = 1\n')
        self.conf.reload_config_files()
        for number in range(4):
            tree = unit.numbered_tree(20 + number)
            for listener in tree['listeners'].values():
                listener['protocol'] = 'HTTP'
            self.store.load_balancers.create(
                spec.document(f'lb{number}', tree))
            self.store.placements.place(f'lb{number}', ['a1', 'pa1'])
        self.store.load_balancers.delete('lb')
        self.report('a1', *PROXIES[:2])
        self.set_conditions(a1='live', pa1='live', pa2='live', pb1='dead',
                            b1='dead')
        self.assertEqual([('pa1', 'pa2')] * 2, [
            (row['from'], row['to'])
            for row in self.listed('rebalance', '--dry-run')])
