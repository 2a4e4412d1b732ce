# SPDX-License-Identifier: Apache-2.0

import os
import stat
from unittest import mock

import fixtures

from octavia_xdp_provider.controller.store import base as store_base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit.manage import base

NODES_URL = 'rabbit://octavia-xdp-controller:s@broker:5671/{vhost}'

# Records its arguments, and fails with errors like RabbitMQ's.
RABBITMQCTL = '''#!/bin/sh
echo "$@ $(cat)" >> "$RECORD"
case "$*" in
    *add_vhost*) echo "Error: virtual host already exists" >&2; exit 70 ;;
    *"$FAILS"*) echo "Error: access to the node refused" >&2; exit 69 ;;
esac
'''


class TestNodes(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.configure(f'[nodes]\ntransport_url = {NODES_URL}\n')

    def rabbitmqctl(self, fails='nothing'):
        directory = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(directory, 'rabbitmqctl')
        with open(path, 'w') as file:
            file.write(RABBITMQCTL)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        self.record = os.path.join(directory, 'record')
        for name, value in (
                ('PATH', f'{directory}:{os.environ["PATH"]}'),
                ('RECORD', self.record), ('FAILS', fails)):
            self.useFixture(fixtures.EnvironmentVariable(name, value))

    def recorded(self):
        with open(self.record) as file:
            return file.read().splitlines()

    def test_created_node_is_listed_before_its_first_report(self):
        self.done('node', 'create', 'lb1')
        node, = self.listed('node', 'list')
        self.assertEqual(('lb1', False, True, 'never'), tuple(
            node[name] for name in ('host', 'alive', 'in_service',
                                    'last_report')))

    def test_problems_of_node_are_in_node_list(self):
        self.seen('lb1', {'processes': {
            'octavia-xdp-result-handler': 'the handler stands still',
            'octavia-xdp-exabgp': None}})
        self.seen('lb2', {})
        lb1, lb2 = self.listed('node', 'list')
        self.assertEqual((['the handler stands still'], []),
                         (lb1['problems'], lb2['problems']))
        out = self.done('node', 'list')
        self.assertIn('the handler stands still', out)
        with self.store.database.write() as session:
            session.get(models.Node, 'lb2').last_seen -= 60
        self.assertIn('no report for 6', self.done('node', 'list'))
        self.assertRegex(self.done('top', '--batch', '-n', '1'),
                         'lb1 .*the handler stands still')

    def test_state_of_node_has_one_line_for_each_figure(self):
        self.seen('lb1', {'uplinks': [{'name': 'eth0', 'v4': {
            'mac': '02:00:00:00:00:01'}}], 'services': 7})
        out = self.done('node', 'show', 'lb1')
        for line in 'services: 7', 'uplinks[0].v4.mac: 02:00:00:00:00:01':
            self.assertIn(line, out)

    def test_nat_of_nodes_is_listed(self):
        for host, nat in (
                ('lb1', {'pools': ['198.51.100.0/28'], 'ports': 1032192,
                         'flows': 7, 'share': 516096, 'peers': 2,
                         'projects': {'p': 7}}),
                ('lb2', None)):
            self.done('node', 'create', host,
                      *(('--nat-pool', nat['pools'][0]) if nat else ()))
            self.seen(host, {'nat': nat})
        lb1, lb2 = self.listed('node', 'nat')
        self.assertEqual(
            {'host': 'lb1', 'pools': ['198.51.100.0/28'], 'ports': 1032192,
             'flows': 7, 'share': 516096, 'peers': 2,
             'projects': {'p': 7}, 'unregistered': None, 'problem': None},
            lb1)
        self.assertEqual(('lb2', None), (lb2['host'], lb2['pools']))
        self.assertIn('198.51.100.0/28', self.done('node', 'nat'))

    def test_problem_of_nat_is_in_node_list(self):
        self.seen('lb1', {'nat': {'pools': [], 'problem': 'a bad pool'}})
        self.assertEqual(['a bad pool'],
                         self.listed('node', 'list')[0]['problems'])
        self.assertIn('a bad pool', self.done('node', 'nat'))
        self.assertRegex(self.done('top', '--batch', '-n', '1'), 'a bad pool')

    def test_only_registered_nat_pools_are_used(self):
        for host, pool in (('lb1', '198.51.100.0/28'),
                           ('lb2', '198.51.100.16/28')):
            self.done('node', 'create', host, '--nat-pool', pool)
        self.seen('lb1', {'nat': {'pools': ['198.51.100.0/28', '0.0.0.0/0']}})
        lb1, _ = self.listed('node', 'nat')
        self.assertEqual((['198.51.100.0/28'], ['0.0.0.0/0']),
                         (lb1['pools'], lb1['unregistered']))
        self.assertIn('198.51.100.16/28 of lb2', self.refused(
            'node', 'nat-pools', 'lb1', '198.51.100.0/27'))
        self.refused('node', 'create', 'lb3', '--nat-pool', '0.0.0.0/0')
        self.refused('node', 'nat-pools', 'lb1', 'pool')
        self.assertIn('lb9 is unknown',
                      self.refused('node', 'nat-pools', 'lb9'))
        self.done('node', 'nat-pools', 'lb1')
        lb1, _ = self.listed('node', 'nat')
        self.assertEqual([], lb1['pools'])

    def test_create_prints_commands_and_configuration_of_node(self):
        out = self.done('node', 'create', 'lb1')
        self.assertIn(
            'rabbitmqctl add_vhost octavia-xdp-node-lb1', out)
        _, _, rest = out.partition("printf '%s\\n' ")
        user, _, rest = rest.partition(
            ' | rabbitmqctl add_user octavia-xdp-node-lb1\n')
        self.assertIn(
            f'transport_url = rabbit://octavia-xdp-node-lb1:{user}@'
            'broker:5671/octavia-xdp-node-lb1', rest)

    def test_creating_node_again_changes_its_password(self):
        first = self.done('node', 'create', 'lb1')
        second = self.done('node', 'create', 'lb1')
        self.assertIn('add_user octavia-xdp-node-lb1', first)
        self.assertIn('change_password octavia-xdp-node-lb1', second)
        self.assertNotIn('close_all_user_connections', first)
        self.assertIn('close_all_user_connections octavia-xdp-node-lb1',
                      second)
        self.assertEqual(1, len(self.listed('node', 'list')))

    def test_apply_runs_commands_instead_of_printing_them(self):
        self.rabbitmqctl()
        out = self.done('node', 'create', 'lb1', '--apply')
        self.assertNotIn('rabbitmqctl', out)
        url = out.partition('octavia-xdp-node-lb1:')[2]
        self.assertEqual(
            f'--quiet add_user octavia-xdp-node-lb1 {url.partition("@")[0]}',
            self.recorded()[0])
        words = [line.split()[1] for line in self.recorded()]
        self.assertEqual(
            ['add_user', 'add_vhost', 'set_vhost_limits', 'set_policy',
             'set_permissions', 'set_permissions'], words)

    def test_apply_reports_error_of_broker(self):
        self.rabbitmqctl(fails='set_policy')
        error = self.refused('node', 'create', 'lb1', '--apply')
        self.assertIn('set_policy', error)
        self.assertIn('access to the node refused', error)

    def test_deleting_node_deletes_its_credentials(self):
        self.done('node', 'create', 'lb1')
        out = self.done('node', 'delete', 'lb1')
        self.assertIn('rabbitmqctl delete_user octavia-xdp-node-lb1', out)
        self.assertIn('rabbitmqctl delete_vhost octavia-xdp-node-lb1', out)
        self.assertEqual([], self.listed('node', 'list'))
        self.assertIn('node lb1 is unknown',
                      self.refused('node', 'delete', 'lb1'))

    def test_node_with_nat_flows_is_deleted_only_with_now(self):
        self.done('node', 'create', 'lb1')
        nat = {'pools': ['198.51.100.0/28'], 'ports': 1032192, 'flows': 7,
               'share': 516096, 'peers': 2, 'projects': {'p': 7}}
        self.seen('lb1', {'nat': nat})
        error = self.refused('node', 'delete', 'lb1')
        self.assertIn('7 NAT flows', error)
        self.assertIn('node drain --wait lb1', error)
        self.assertEqual(1, len(self.listed('node', 'list')))
        self.done('node', 'delete', 'lb1', '--now')
        self.assertEqual([], self.listed('node', 'list'))

    def test_dead_node_is_deleted_in_spite_of_nat_flows(self):
        self.done('node', 'create', 'lb1')
        self.seen('lb1', {'nat': {'flows': 7}})
        later = (self.store.database.now()
                 + self.conf.placement.node_timeout + 1)
        with mock.patch.object(store_base.Database, 'now', return_value=later):
            self.done('node', 'delete', 'lb1')
        self.assertEqual([], self.listed('node', 'list'))

    def test_names_with_a_meaning_to_the_broker_are_refused(self):
        for name in ('a b', 'a/b', '..', 'x' * 65):
            error = self.refused('node', 'create', name)
            self.assertIn('cannot be the name of a node', error)
        self.assertEqual([], self.listed('node', 'list'))

    def test_node_is_disabled_and_enabled(self):
        self.done('node', 'create', 'lb1')
        self.done('node', 'disable', 'lb1')
        self.assertIs(False, self.listed('node', 'list')[0]['in_service'])
        self.done('node', 'enable', 'lb1')
        self.assertIs(True, self.listed('node', 'list')[0]['in_service'])
        self.assertIn('node lb2 is unknown',
                      self.refused('node', 'disable', 'lb2'))


class TestApplication(base.ManageTestCase):

    def test_no_node_is_created_without_url_of_nodes(self):
        error = self.refused('node', 'create', 'lb1')
        self.assertIn('[nodes] transport_url', error)
        self.assertEqual([], self.listed('node', 'list'))

    def test_invalid_option_of_configuration_is_named(self):
        self.configure('[placement]\nreplicas = none\n')
        self.assertIn('replicas', self.refused('node', 'list'))

    def test_broker_setup_prints_users_of_driver_and_controllers(self):
        out = self.done('broker', 'setup')
        for word in ('add_vhost octavia-xdp',
                     'add_user octavia-xdp-controller',
                     'add_user octavia-xdp-driver', '{vhost}'):
            self.assertIn(word, out)
