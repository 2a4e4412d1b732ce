# SPDX-License-Identifier: Apache-2.0
"""Commands for hypervisors."""

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.tests.unit.manage import base

PORT_ID = '00000000-0000-4000-8000-000000000001'
GROUP_ID = '00000000-0000-4000-8000-000000000090'


class TestHosts(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.store.hypervisors.register('hv1')
        self.token = token = self.store.leases.acquire('duty', 'test', 60)
        self.store.ways.store(ways.Changes(
            {('hv1', 7): ways.Key('hv1', 7, PORT_ID, 'a', 'l', 'm', {})},
            {('hv1', PORT_ID): ('port', {'entries': [{'key': 7}]})}),
            'duty', token)

    def report(self, error=None):
        generation = self.store.hypervisors.objects(['hv1'])[0].generation
        self.store.host_reports.take('hv1', 1, 1, {
            'as_of': generation, 'complete': True, 'gone': [],
            'held': {PORT_ID: {'generation': generation, 'ifindex': 3,
                               'error': error}},
            'counters': {PORT_ID: {'drops': {'not_allowed': 2}, 'active': 1,
                                   'entries': []}},
            'state': {'geneve': ['198.18.20.1'], 'mtu': 1500}})

    def test_list_counts_wanted_and_ready_ports(self):
        row, = self.listed('host', 'list')
        self.assertEqual(('hv1', False, 'never', 1, 0, 1), tuple(
            row[name] for name in ('host', 'alive', 'last_report', 'ports',
                                   'ports_ready', 'keys')))
        self.report()
        row, = self.listed('host', 'list')
        self.assertEqual((True, 1, '198.18.20.1', ''), tuple(
            row[name] for name in ('alive', 'ports_ready', 'tunnels_to',
                                   'problems')))

    def test_error_of_port_is_shown(self):
        self.report('no room')
        row, = self.listed('host', 'list')
        self.assertEqual(0, row['ports_ready'])
        self.assertIn('no room', row['problems'])

    def test_control_characters_of_agents_are_escaped(self):
        # ESC ] sets the terminal's title; \x9b is ESC [ as one character.
        error = 'no \x1b]0;room\x07 \x9b2J, in two\nlines, für niemand'
        self.report(error)
        for words in (('list',), ('show', 'hv1')):
            for formatter in ('table', 'value', 'yaml'):
                out = self.done('host', *words, '-f', formatter)
                self.assertEqual(set(), set(out) & {'\x1b', '\x07', '\x9b'},
                                 formatter)
        self.assertIn('no \\x1b]0;room\\x07 \\x9b2J, in two',
                      self.done('host', 'show', 'hv1', '-f', 'value'))
        row, = self.listed('host', 'list')
        self.assertIn(error, row['problems'])

    def test_group_that_may_exceed_the_limit_is_shown(self):
        for number, words in ((host_spec.ADDRESSES_MAX - 1, []),
                              (host_spec.ADDRESSES_MAX, [GROUP_ID, '4096'])):
            self.store.ways.store(ways.Changes(documents={
                ('hv1', GROUP_ID): ('address_set', {
                    'networks': ['192.0.2.1/32'] * number})}),
                'duty', self.token)
            row, = self.listed('host', 'list')
            for word in words:
                self.assertIn(word, row['problems'])
            self.assertEqual(bool(words), bool(row['problems']))

    def test_hypervisor_is_disabled_and_enabled(self):
        for command, wanted in (('disable', False), ('enable', True)):
            self.run_command('host', command, 'hv1')
            row, = self.listed('host', 'list')
            self.assertEqual(wanted, row['in_service'])

    def test_unknown_hypervisor_is_named(self):
        for command in ('show', 'disable', 'enable', 'delete'):
            self.assertIn('hv9 is unknown', self.refused(
                'host', command, 'hv9'))
