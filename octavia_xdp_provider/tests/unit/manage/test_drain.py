# SPDX-License-Identifier: Apache-2.0
"""Drain nodes, move load balancers, even out the load."""

import json
import re
from unittest import mock

from octavia_xdp_provider.manage import waiting
from octavia_xdp_provider.tests.unit.manage import operating


class TestDrain(operating.OperatorTestCase):

    def test_drained_node_is_empty_when_others_have_taken_over(self):
        self.report('lb1')
        self.create('a', 'lb1')
        self.run_controller('lb1', 'lb2')
        status, _, err = self.while_nodes_work(
            ('lb1', 'lb2'),
            lambda: self.run_command('node', 'drain', 'lb1', '--wait'))
        self.assertEqual(0, status, err)
        self.assertEqual(['lb2'], self.hosts('a'))
        node = self.listed('node', 'show', 'lb1')
        self.assertEqual(('draining', False, 0), (
            node['condition'], node['in_service'], node['load_balancers']))

    def test_vip_that_no_other_node_can_take_stays_as_last_resort(self):
        self.report('lb1')
        self.create('a', 'lb1')
        self.run_controller('lb1')
        self.done('node', 'drain', 'lb1')
        self.run_controller('lb1')
        self.run_controller('lb1')
        self.assertEqual((['lb1'], ['lb1']),
                         (self.hosts('a'), self.draining('a')))
        entry, = self.store.deltas.changes('lb1', 0)['changed']
        self.assertIs(True, entry['draining'])
        error = self.refused('node', 'drain', 'lb1', '--wait',
                             '--timeout', '0')
        self.assertIn('1 load balancers are still on lb1', error)

    def test_enable_undoes_drain(self):
        self.report('lb1')
        self.create('a', 'lb1')
        self.run_controller('lb1')
        self.done('node', 'drain', 'lb1')
        self.run_controller('lb1')
        self.assertEqual(['lb1'], self.draining('a'))
        before = self.store.deltas.changes('lb1', 0)['changed'][0][
            'generation']
        self.done('node', 'enable', 'lb1')
        self.run_controller('lb1')
        self.assertEqual([], self.draining('a'))
        entry, = self.store.deltas.changes('lb1', 0)['changed']
        self.assertNotIn('draining', entry)
        self.assertGreater(entry['generation'], before)

    def use_open_slots(self, more=0, **slots):
        """Let each node report these numbers for load balancers."""
        self.open_slots = {'slots': sum(slots.values()),
                           'load_balancers': slots, 'more': more}

    def test_drain_begins_when_no_slots_are_open(self):
        self.create('a', 'lb1')
        self.use_open_slots(a=7)
        self.run_controller('lb1', 'lb2')
        hosts = []

        def close(_seconds):
            hosts.append(self.hosts('a'))
            if len(hosts) == 3:
                self.use_open_slots(a=0)
                self.open_slots['load_balancers'] = {}
                self.report('lb1', 'lb2')
        with mock.patch.object(waiting.time, 'sleep', close):
            self.done('node', 'drain', 'lb1')
        self.assertEqual([['lb1']] * 3, hosts)
        self.assertFalse(self.listed('node', 'show', 'lb1')['in_service'])

    def test_slots_that_stay_open_are_named_and_nothing_is_changed(self):
        self.create('a', 'lb1')
        for more, slots, named in ((0, {'a': 7}, 'a on lb1, a on lb2'),
                                   (1, {}, '(others) on lb1')):
            self.use_open_slots(more, **slots)
            self.run_controller('lb1', 'lb2')
            error = self.refused('node', 'drain', 'lb1', '--settle-timeout',
                                 '0')
            self.assertIn(named, error)
            self.assertIn('--now', error)
            self.assertTrue(
                self.listed('node', 'show', 'lb1')['in_service'])
        self.done('node', 'drain', 'lb1', '--now')
        self.assertFalse(self.listed('node', 'show', 'lb1')['in_service'])

    def test_drain_does_not_wait_for_load_balancers_of_other_nodes(self):
        self.create('a', 'lb1')
        self.create('b', 'lb2', number=11)
        self.use_open_slots(b=7)
        self.run_controller('lb1', 'lb2')
        self.done('node', 'drain', 'lb1', '--settle-timeout', '0')

    def test_drain_waits_for_change_that_reports_do_not_reflect_yet(self):
        self.create('a', 'lb1')
        self.create('b', 'lb2', number=11)
        self.run_controller('lb1', 'lb2')
        changed = {entry['id']: entry['generation'] for host in ('lb1', 'lb2')
                   for entry in self.store.deltas.changes(host, 0)['changed']}
        self.assertGreater(changed['b'], changed['a'])
        self.use_open_slots()
        self.open_slots['as_of'] = changed['a'] - 1
        self.run_controller('lb1', 'lb2')
        error = self.refused('node', 'drain', 'lb1', '--settle-timeout', '0')
        self.assertIn('a on lb1, which has not reported since it changed',
                      error)
        self.assertNotIn('b on', error)
        self.assertTrue(self.listed('node', 'show', 'lb1')['in_service'])
        self.open_slots['as_of'] = changed['a']
        self.run_controller('lb1', 'lb2')
        self.done('node', 'drain', 'lb1', '--settle-timeout', '0')

    def test_open_slots_are_listed(self):
        self.create('a', 'lb1')
        self.use_open_slots(2, a=7, b=9)
        self.run_controller('lb1')
        self.assertEqual(
            [('lb1', 'b', 9), ('lb1', 'a', 7), ('lb1', '(others)', None)],
            [tuple(row.values()) for row
             in self.listed('node', 'open-slots')])

    def test_unknown_node_is_refused(self):
        self.assertIn('lb9 is unknown', self.refused('node', 'drain', 'lb9'))


class TestMove(operating.OperatorTestCase):

    def setUp(self):
        super().setUp()
        self.report('lb1', 'lb2', 'lb3')
        self.create('a', 'lb1', name='web')
        self.run_controller('lb1', 'lb2', 'lb3')

    def move(self, *options, name='web', target='lb3'):
        return ('lb', 'move', name, '--from', 'lb1', '--to', target,
                *options)

    def test_new_node_announces_it_before_it_leaves_the_old(self):
        self.done(*self.move())
        self.assertEqual(['lb1', 'lb3'], self.hosts('a'))
        self.announcing = False
        self.run_controller('lb3')
        self.announcing = True
        for _ in range(3):
            self.run_controller('lb1')
        self.assertEqual((['lb1', 'lb3'], []),
                         (self.hosts('a'), self.draining('a')))
        self.run_controller('lb1', 'lb3')
        self.assertEqual(['lb1'], self.draining('a'))

    def test_moved_load_balancer_is_on_new_node_only(self):
        status, _, err = self.while_nodes_work(
            ('lb1', 'lb2', 'lb3'),
            lambda: self.run_command(*self.move('--wait', name='a')))
        self.assertEqual(0, status, err)
        self.assertEqual(['lb3'], self.hosts('a'))

    def test_impossible_move_is_refused_and_changes_nothing(self):
        self.create('b', 'lb1', name='web', number=11)
        self.run_controller('lb1', 'lb2', 'lb3')
        self.store.nodes.set_in_service('lb2', False)
        self.run_controller('lb1', 'lb2', 'lb3')
        for arguments, text in (
                (self.move(name='nobody'), 'no load balancer'),
                (self.move(), '2 load balancers have the name'),
                (self.move(name='a', target='lb1'), 'is already on lb1'),
                (self.move(name='a', target='lb9'), 'lb9 is unknown'),
                (self.move(name='a', target='lb2'), 'the node is disabled'),
                (('lb', 'move', 'a', '--from', 'lb2', '--to', 'lb3'),
                 'it is not on lb2')):
            self.assertIn(text, self.refused(*arguments))
        self.assertEqual(['lb1'], self.hosts('a'))


class TestLoadBalancers(operating.OperatorTestCase):

    def setUp(self):
        super().setUp()
        self.report('lb1', 'lb2')
        self.create('a', 'lb1', name='web')
        self.create('b', 'lb2', name='mail', number=11)
        self.run_controller('lb1', 'lb2')
        self.run_controller('lb1', 'lb2')

    def test_list_shows_nodes_and_state_and_can_be_filtered(self):
        a, b = self.listed('lb', 'list')
        self.assertEqual(('a', 'web', ['203.0.113.10'], ['lb1'], 'ok'),
                         (a['id'], a['name'], a['vips'], a['nodes'],
                          a['state']))
        self.assertEqual([b], self.listed('lb', 'list', '--node', 'lb2'))
        self.assertEqual([], self.listed('lb', 'list', '--problems'))
        self.assertEqual([], self.listed('lb', 'list', '--project', 'x'))
        self.assertIn('203.0.113.10', self.done('lb', 'list'))

    def test_failing_node_is_a_problem_with_its_reason(self):
        answer = self.store.deltas.changes('lb1', 0)
        self.store.reports.take('lb1', 99, 1, {
            'as_of': answer['as_of'], 'complete': True, 'gone': [],
            'counters': {}, 'state': {}, 'held': {'a': {
                'generation': answer['changed'][0]['generation'],
                'error': 'full', 'members': {}, 'announced': False}}})
        row, = self.listed('lb', 'list', '--problems')
        self.assertEqual(('a', 'failing', ['lb1: full']),
                         (row['id'], row['state'], row['problems']))
        node, = self.listed('lb', 'show', 'web')['nodes']
        self.assertEqual(('lb1', 'failing', 'full'),
                         (node['host'], node['state'], node['error']))
        self.assertIn('full', self.done('lb', 'show', 'a'))

    def test_node_that_does_not_remove_load_balancer_is_named(self):
        self.store.load_balancers.delete('a')
        row, = self.listed('lb', 'list', '--problems')
        problem, = row['problems']
        self.assertRegex(problem, r'^lb1: has not removed it; '
                                  r'its last report came \d+ s ago$')
        balancer = self.store.load_balancers.get('a')
        self.store.sent_statuses.note('a', balancer.generation, failed=True)
        for row in (self.listed('lb', 'list', '--problems')[0],
                    self.listed('lb', 'show', 'a')):
            problem, = row['problems']
            self.assertIn('it is in ERROR in Octavia', problem)

    def test_each_state_other_than_ok_has_a_reason(self):
        self.store.requests.add({
            'object': 'loadbalancer', 'action': 'delete', 'object_id': 'a',
            'load_balancer_id': 'a'}, 'request')
        self.create('c', number=12)
        self.create('d', 'lb1', number=13)
        self.create('e', 'lb1', 'lb2', number=14)
        self.report('lb1', 'lb2')
        self.store.placements.place('b', remove=['lb2'])
        self.store.placements.place('e', drain=['lb1'])
        self.store.load_balancers.change('d', lambda document: document)
        self.assertEqual({
            'a': ('pending', ['a change waits for Octavia\'s commit']),
            'b': ('leaving', ['lb2: has not given it up yet; its last report '
                              'came N s ago']),
            'c': ('without a node',
                  ['it is not placed yet, or no node is registered']),
            'd': ('loading', ['lb1: has not applied the newest change; its '
                              'last report came N s ago']),
            'e': ('draining', ['lb1: other nodes are taking it over from '
                               'this node'])},
            {row['id']: (row['state'], [
                re.sub(r'came \d+ s', 'came N s', problem)
                for problem in row['problems']])
             for row in self.listed('lb', 'list', '--problems')})
        self.store.nodes.set_in_service('lb1', False)
        self.store.nodes.set_in_service('lb2', False)
        self.duty.step()
        row, = [row for row in self.listed('lb', 'list')
                if row['id'] == 'c']
        self.assertEqual(['lb1: the node is disabled',
                          'lb2: the node is disabled'], row['problems'])


class TestRebalance(operating.OperatorTestCase):

    def setUp(self):
        super().setUp()
        self.report('lb1')
        for number in range(6):
            self.create(f'{number}', 'lb1', number=number)
        self.run_controller('lb1', 'lb2')
        self.run_controller('lb1', 'lb2')

    def test_dry_run_lists_moves_and_makes_none(self):
        steps = self.listed('rebalance', '--dry-run')
        self.assertEqual(
            [(1, '0', 'lb1', 'lb2'), (2, '1', 'lb1', 'lb2'),
             (3, '2', 'lb1', 'lb2')],
            [(step['step'], step['load_balancer'], step['from'], step['to'])
             for step in steps])
        self.assertEqual({'lb1': 6}, self.store.placements.load())

    def test_rebalance_makes_the_moves_of_the_dry_run(self):
        planned = [step['load_balancer'] for step
                   in self.listed('rebalance', '--dry-run')]
        status, out, err = self.while_nodes_work(
            ('lb1', 'lb2'),
            lambda: self.run_command('rebalance', '-f', 'json'))
        self.assertEqual(0, status, err)
        self.assertEqual(planned, [step['load_balancer'] for step
                                   in json.loads(out)])
        self.assertEqual({'lb1': 3, 'lb2': 3}, self.store.placements.load())
        self.assertEqual([], self.listed('rebalance', '--dry-run'))
