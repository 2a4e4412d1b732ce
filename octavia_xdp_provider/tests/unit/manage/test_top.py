# SPDX-License-Identifier: Apache-2.0

import json
import sys

from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.manage import fleet
from octavia_xdp_provider.tests.support import terminal
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.manage import base

STATE = {
    'announced': 1, 'bgp_established': [1, 2],
    'uplinks': [{'problem': None, 'forwards': True}],
    'health_checker': {'checks': 3, 'up': 2}}


class TopTestCase(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.seen('lb1', STATE)
        self.store.nodes.register('lb2')
        self.store.load_balancers.create(unit.document())
        self.count(0)
        with self.store.database.write() as session:
            session.add(models.Placement(
                load_balancer_id='lb', host='lb1', placed_generation=1,
                members='{"m1": "up", "m2": "down"}'))

    def count(self, number):
        with self.store.database.write() as session:
            session.merge(models.ListenerCounter(
                listener_id='listener', host='lb1', load_balancer_id='lb',
                total_bytes=1000 * number, total_flows=10 * number,
                total_drops=number, active=7))


class TestFleet(TopTestCase):

    def setUp(self):
        super().setUp()
        self.clock = 0.0
        self.fleet = fleet.Fleet(self.store, self.conf.placement,
                                 lambda: self.clock)

    def rows(self, subject, order='bits', limit=20):
        for number in range(3):
            self.clock = 10.0 * number
            self.count(number)
            view = self.fleet.view(subject, order, limit)
        return view['rows']

    def test_row_of_node_has_its_traffic_and_state(self):
        lb1, lb2 = self.rows(fleet.NODES)
        self.assertEqual({
            'name': 'lb1', 'bits': 800, 'flows': 1.0, 'drops': 0.1,
            'active': 7, 'announced': 1, 'bgp': [1, 2], 'uplinks': '1/1',
            'members': [2, 3], 'load_balancers': 1, 'failing': 0,
            'problems': ['1 of 2 BGP sessions are up']},
            {name: lb1[name] for name in lb1 if name not in (
                'condition', 'behind', 'lag', 'silence_s')})
        self.assertEqual(('lb2', 0, None, None), (
            lb2['name'], lb2['bits'], lb2['silence_s'], lb2['bgp']))

    def test_row_of_load_balancer_has_its_traffic_and_members(self):
        row, = self.rows(fleet.LOAD_BALANCERS)
        self.assertEqual(
            {'name': 'lb', 'bits': 800, 'flows': 1.0, 'drops': 0.1,
             'active': 7, 'nodes': ['lb1'], 'members': [1, 2],
             'vips': [unit.document()['vip_address']]}, row)

    def test_rows_are_sorted_and_limited_as_requested(self):
        self.assertEqual(['lb1'], [row['name'] for row in self.rows(
            fleet.NODES, 'bits', 1)])
        with self.store.database.write() as session:
            session.add(models.ListenerCounter(
                listener_id='other', host='lb2', load_balancer_id='lb',
                total_bytes=0, total_flows=0, total_drops=0, active=99))
        for order, first in ('active', 'lb2'), ('name', 'lb1'), (
                'flows', 'lb1'):
            self.assertEqual(first, self.fleet.view(
                fleet.NODES, order, 20)['rows'][0]['name'])


    def test_load_balancers_in_one_zone_only_are_above_the_table(self):
        self.assertNotIn('zone', fleet.head(
            self.fleet.view(fleet.NODES, 'bits', 20))[0])
        self.store.nodes.set_zone('lb1', 'east')
        view = self.fleet.view(fleet.NODES, 'bits', 20)
        self.assertEqual({'east': 1, '': 0}, view['in_one_zone'])
        self.assertIn('deleted, 1 in one zone only: east; ',
                      fleet.head(view)[0])


class TestTop(TopTestCase):

    def test_batch_writes_requested_number_of_views(self):
        out = self.done('top', '--batch', '-n', '2', '--interval', '0.1')
        self.assertEqual(2, out.count('NODE '))
        self.assertIn('1 load balancers, 0 changing', out)
        self.assertRegex(out, r'lb1 +\S+ +- +- +- +7 +1 +1 .* 1/2 +1/1 +2/3')
        self.assertIn('lb2', out)
        out = self.done('top', 'load-balancers', '--batch', '-n', '1')
        self.assertIn('LOAD BALANCER', out)
        self.assertRegex(out, r'lb +- +- +- +7 +1/2 +1  ')

    def test_batch_writes_json(self):
        out = self.done('top', '--batch', '-n', '2', '--json', '--interval',
                        '0.1', '--rows', '1', '--sort', 'name')
        for line in out.splitlines():
            view = json.loads(line)
            self.assertEqual((2, ['lb1']), (view['number'], [
                row['name'] for row in view['rows']]))

    def test_options_that_need_batch_are_refused_without_it(self):
        self.assertIn('--batch', self.refused('top', '--json'))
        self.assertIn('--batch', self.refused('top', '-n', '3'))
        self.assertIn('writes to pipes', self.refused('top'))

    def test_screen_shows_nodes_and_load_balancers_until_a_key_ends_it(self):
        screen = terminal.Screen([
            sys.executable, '-m', 'octavia_xdp_provider.cmd.manage',
            '--config-file', self.conf.default_config_files[0], 'top',
            '--interval', '0.2'], 'xterm', columns=120)
        self.addCleanup(screen.close)
        screen.expect('lb1')
        screen.press('L')
        screen.expect('LOAD BALANCER')
        screen.press('N')
        screen.expect('NODE')
        screen.press('q')
        self.assertEqual(0, screen.wait())
