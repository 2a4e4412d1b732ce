# SPDX-License-Identifier: Apache-2.0
"""Register zones of nodes, list them, take them out of service."""

from octavia_xdp_provider.tests.unit.manage import operating


class ZonesTestCase(operating.OperatorTestCase):

    NODES = ('a1', 'a2', 'b1', 'b2')

    def setUp(self):
        super().setUp()
        self.configure('replicas = 2\nremoval_budget_percent = 0\n'
                       'removal_budget_min = 0\nsettle_time = 0\n')
        self.conf.reload_config_files()
        for host in self.NODES:
            self.store.nodes.register(host, zone=host[0])

    def run_controller_until_quiet(self, *hosts):
        for _ in range(4):
            self.run_controller(*hosts)


class TestRegistration(ZonesTestCase):

    def test_zone_of_a_node_can_be_set_and_removed(self):
        self.configure('[nodes]\n'
                       'transport_url = rabbit://c:s@broker:5671/{vhost}\n')
        self.done('node', 'create', 'c1', '--zone', 'c')
        self.assertEqual('c', self.listed('node', 'show', 'c1')['zone'])
        self.done('node', 'create', 'c1')
        self.assertEqual('c', self.listed('node', 'show', 'c1')['zone'])
        self.done('node', 'create', 'c1', '--zone', 'd')
        self.done('node', 'zone', 'a1', 'e')
        self.done('node', 'zone', 'a2')
        self.assertEqual({'a1': 'e', 'a2': None, 'b1': 'b', 'b2': 'b',
                          'c1': 'd'}, {row['host']: row['zone'] for row
                                       in self.listed('node', 'list')})

    def test_malformed_zone_and_unknown_node_are_refused(self):
        self.assertIn("'a\\nb'", self.refused('node', 'zone', 'a1', 'a\nb'))
        self.assertIn('lb9 is unknown',
                      self.refused('node', 'zone', 'lb9', 'a'))
        for name in ('drain', 'enable'):
            self.assertIn("no node is in zone 'x'",
                          self.refused('zone', name, 'x'))


class TestDrain(ZonesTestCase):

    def setUp(self):
        super().setUp()
        self.report(*self.NODES)
        self.duty.step()
        for number in range(4):
            self.create(f'{number}', 'a1' if number % 2 else 'a2',
                        'b1' if number % 2 else 'b2', number=number)
        self.run_controller_until_quiet(*self.NODES)

    def loads(self):
        return {host: number for host, number
                in self.store.placements.load().items() if number}

    def test_load_balancers_leave_a_zone_and_come_back(self):
        status, _, err = self.while_nodes_work(
            self.NODES,
            lambda: self.run_command('zone', 'drain', 'a', '--wait'))
        self.assertEqual(0, status, err)
        self.assertEqual({'b1': 4, 'b2': 4}, self.loads())
        self.assertEqual({'a': (2, 0, 0, 0), 'b': (2, 2, 8, 4)}, {
            row['zone']: (len(row['nodes'].split()), row['in_service'],
                          row['load_balancers'], row['only_here'])
            for row in self.listed('zone', 'list')})
        self.done('zone', 'enable', 'a')
        for _ in range(12):
            self.run_controller(*self.NODES)
        status, _, err = self.while_nodes_work(
            self.NODES, lambda: self.run_command('rebalance'))
        self.assertEqual(0, status, err)
        self.run_controller_until_quiet(*self.NODES)
        self.assertEqual({'a': (8 // 2, 0), 'b': (8 // 2, 0)}, {
            row['zone']: (row['load_balancers'], row['only_here'])
            for row in self.listed('zone', 'list')})

    def test_lost_zone_needs_no_other_consent(self):
        """The budget allows no removals."""
        self.set_conditions(a1='dead', a2='dead')
        out = self.done('zone', 'drain', 'a')
        self.assertIn('4 VIPs are on failed nodes of zone a: 4 more', out)
        self.assertEqual(-4, self.store.placements.removals_since(600))
        # Removals that have been allowed are not allowed twice.
        self.assertEqual('', self.done('zone', 'drain', 'a'))
        self.assertEqual(-4, self.store.placements.removals_since(600))

    def test_open_slots_of_any_node_delay_the_drain(self):
        self.open_slots = {'slots': 1, 'load_balancers': {'1': 7},
                           'more': 0}
        self.report(*self.NODES)
        error = self.refused('zone', 'drain', 'a', '--settle-timeout', '0')
        self.assertIn('1 on a1', error)
        self.assertTrue(all(node.in_service
                            for node in self.store.nodes.all()))

    def test_vips_that_no_other_zone_takes_are_named(self):
        self.set_conditions(b1='silent', b2='silent')
        error = self.refused('zone', 'drain', 'a', '--wait', '--timeout', '0')
        self.assertIn('4 load balancers are still in zone a', error)


class TestProblems(ZonesTestCase):

    def problem(self):
        """Return state and problems of the only load balancer."""
        row, = self.listed('lb', 'list', '--problems')
        self.assertEqual(row['problems'],
                         self.listed('lb', 'show', 'lb')['problems'])
        return row['state'], row['problems'][0]

    def test_load_balancer_in_one_zone_is_a_problem_with_its_reason(self):
        self.create('lb', 'a1', 'a2')
        self.report('a1', 'a2')
        self.set_conditions(b1='silent', b2='dead')
        self.assertEqual((
            'in one zone', "all its nodes are in zone 'a'; no other zone can "
            'take it: b1: the node is silent; b2: the node is dead'),
            self.problem())
        self.set_conditions(b2='live')
        self.assertIn('not placed yet', self.problem()[1])

    def test_required_zone_that_is_missing_is_a_problem(self):
        self.configure('spread = require\n')
        self.create('lb', 'a1')
        self.set_conditions(a1='live', a2='live', b1='dead', b2='dead')
        self.report('a1')
        state, text = self.problem()
        self.assertEqual('too few zones', state)
        self.assertIn('b1: the node is dead', text)
        self.assertIn({'host': 'a2', 'because': "its zone 'a' has a1, and "
                       'spread is require'},
                      self.listed('lb', 'show', 'lb')['refused_by'])
        for host in ('b1', 'b2'):
            self.store.nodes.set_zone(host, 'a')
        self.assertIn('no node is registered in another zone',
                      self.problem()[1])

    def test_spread_load_balancer_has_no_problem(self):
        self.create('lb', 'a1', 'b1')
        self.run_controller_until_quiet(*self.NODES)
        self.assertEqual([], self.listed('lb', 'list', '--problems'))
        self.assertEqual(['a', 'b'], [
            node['zone'] for node in self.listed('lb', 'show', 'lb')[
                'nodes']])


class TestMove(ZonesTestCase):

    def test_move_that_would_be_undone_is_refused(self):
        self.create('lb', 'a1', 'b1')
        self.run_controller_until_quiet(*self.NODES)
        error = self.refused('lb', 'move', 'lb', '--from', 'a1',
                             '--to', 'b2')
        self.assertIn("zone 'b' has 1 of its nodes", error)
        self.done('lb', 'move', 'lb', '--from', 'a1', '--to', 'a2')
