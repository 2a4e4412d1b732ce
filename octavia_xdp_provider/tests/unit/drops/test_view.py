# SPDX-License-Identifier: Apache-2.0
"""What people and programs get to see."""

import io
import json

import fixtures

from octavia_xdp_provider.drops import rows
from octavia_xdp_provider.drops import view
from octavia_xdp_provider.tests.unit import base

STACK = rows.Row(
    'kernel', 'NO_SOCKET', where='udp_rcv', vip='203.0.113.10',
    direction='to', protocol='UDP', encapsulation='IPIP', ifindex=2,
    interface='eth0')
XDP = rows.Row(
    'xdp', 'EINVAL', where='xdp_redirect_err', ifindex=9, to_ifindex=12,
    action='XDP_REDIRECT', program='forward', program_id=7)
OWN = rows.Row('own', 'NO_MEMBER', where='octavia-xdp')
LOST = [rows.Lost(STACK, 5, 10), rows.Lost(XDP, 1, 1), rows.Lost(OWN, 0, 3)]


class Terminal(io.StringIO):

    def isatty(self):
        return True


class TableTest(base.TestCase):

    def test_columns(self):
        self.assertEqual(
            ['PER SECOND  TOTAL  SOURCE  VIP           REASON     WHERE'
             '             PACKETS',
             '       2.5     10  kernel  203.0.113.10  NO_SOCKET  udp_rcv'
             '           UDP to the VIP, in IPIP, eth0',
             '       0.5      1  xdp     -             EINVAL     '
             'xdp_redirect_err  interface 9, towards interface 12, '
             'XDP_REDIRECT, program forward (id 7)',
             '       0.0      3  own     -             NO_MEMBER  octavia-xdp'
             '       all VIPs of the node'],
            view.table(LOST, 2.0))

    def test_what_does_not_fit_is_counted(self):
        lines = view.table(LOST, 1.0, height=3)
        self.assertEqual(3, len(lines))
        self.assertIn('NO_SOCKET', lines[1])
        self.assertEqual('… 2 more; --json shows all', lines[-1])
        self.assertEqual(view.table(LOST, 1.0),
                         view.table(LOST, 1.0, height=4))
        # However low it is, the worst is shown.
        self.assertIn('NO_SOCKET', view.table(LOST, 1.0, height=-2)[1])

    def test_other_namespace(self):
        self.assertIn('interface 2 of namespace 4026532000', view.details(
            STACK._replace(interface=None, namespace=4026532000)))

    def test_program_without_a_name(self):
        self.assertIn('program without a name (id 7)',
                      view.details(XDP._replace(program=None)))


class PeopleTest(base.TestCase):

    def shown(self, file):
        people = view.People(file)
        people.start(['203.0.113.10'], ['kernel', 'own'])
        people.refresh(LOST, 2.0, 4)
        people.end('signal', 2.0, 14)
        return file.getvalue()

    def test_appended(self):
        text = self.shown(io.StringIO())
        self.assertNotIn('\x1b', text)
        self.assertIn('Watching 1 VIP; sources: kernel, own.', text)
        self.assertIn('6 packets lost in 2.0 s, 14 since the start', text)
        self.assertIn('4 packets not listed', text)
        self.assertTrue(text.endswith(
            'Ended (signal): 14 packets lost in 2.0 s.\n'))

    def test_in_place_within_the_terminal(self):
        for name, value in ('COLUMNS', '40'), ('LINES', '6'):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        text = self.shown(Terminal())
        table = text[text.index(view.CLEAR):text.index('Ended')]
        self.assertLessEqual(len(table.splitlines()), 6)
        for line in table.replace(view.CLEAR, '').splitlines():
            self.assertLessEqual(len(line), 40)
        self.assertIn('2 more', table)


class ProgramsTest(base.TestCase):

    def test_lines(self):
        file = io.StringIO()
        programs = view.Programs(file)
        programs.start(['b', 'a'], ['kernel'])
        programs.refresh(LOST[:1], 1.23456, 4, ['a', 'b'])
        programs.end('count', 1.23456, 14)
        start, drops, end = map(json.loads, file.getvalue().splitlines())
        for line in start, drops, end:
            self.assertIsInstance(line.pop('time'), float)
        self.assertEqual({'type': 'start', 'vips': ['a', 'b'],
                          'sources': ['kernel']}, start)
        self.assertEqual(
            {'type': 'drops', 'seconds': 1.235, 'vips': ['a', 'b'],
             'missed': 4, 'drops': [{
                 'packets': 5, 'total': 10, 'source': 'kernel',
                 'reason': 'NO_SOCKET', 'where': 'udp_rcv',
                 'vip': '203.0.113.10', 'direction': 'to',
                 'protocol': 'UDP', 'encapsulation': 'IPIP', 'ifindex': 2,
                 'interface': 'eth0', 'namespace': None, 'to_ifindex': None,
                 'action': None, 'program': None, 'program_id': None}]},
            drops)
        self.assertEqual({'type': 'end', 'why': 'count', 'seconds': 1.235,
                          'total': 14}, end)

    def test_nothing_lost_is_a_line_too(self):
        file = io.StringIO()
        view.Programs(file).refresh([], 1.0, 0)
        self.assertEqual([], json.loads(file.getvalue())['drops'])
