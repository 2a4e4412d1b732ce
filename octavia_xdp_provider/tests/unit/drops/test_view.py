# SPDX-License-Identifier: Apache-2.0
"""Tables and lines of JSON."""

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
DATAPATH = rows.Row('datapath', 'NO_MEMBER', where='octavia-xdp')
LOST = [rows.Lost(STACK, 5, 10), rows.Lost(XDP, 1, 1),
        rows.Lost(DATAPATH, 0, 3)]


class Terminal(io.StringIO):

    def isatty(self):
        return True


class TableTest(base.TestCase):

    def test_columns_are_aligned(self):
        self.assertEqual(
            ['PER SECOND  TOTAL  SOURCE    VIP           REASON     WHERE'
             '             PACKETS',
             '       2.5     10  kernel    203.0.113.10  NO_SOCKET  udp_rcv'
             '           UDP to the VIP, in IPIP, eth0',
             '       0.5      1  xdp       -             EINVAL     '
             'xdp_redirect_err  interface 9, towards interface 12, '
             'XDP_REDIRECT, program forward (id 7)',
             '       0.0      3  datapath  -             NO_MEMBER  '
             'octavia-xdp       all VIPs of the node'],
            view.table(LOST, 2.0))

    def test_rows_that_do_not_fit_are_counted(self):
        lines = view.table(LOST, 1.0, height=3)
        self.assertEqual(3, len(lines))
        self.assertIn('NO_SOCKET', lines[1])
        self.assertEqual('… 2 more; --json shows all', lines[-1])
        self.assertEqual(view.table(LOST, 1.0),
                         view.table(LOST, 1.0, height=4))
        # The worst row is shown at any height.
        self.assertIn('NO_SOCKET', view.table(LOST, 1.0, height=-2)[1])

    def test_interface_of_another_namespace_is_identified_by_numbers(self):
        self.assertIn('interface 2 of namespace 4026532000', view.details(
            STACK._replace(interface=None, namespace=4026532000)))

    def test_program_without_a_name_is_identified_by_number(self):
        self.assertIn('program without a name (id 7)',
                      view.details(XDP._replace(program=None)))

    def test_drops_of_hypervisors_name_the_port(self):
        row = rows.Row('host', 'KEY', where='octavia-xdp-host')
        self.assertEqual('of no port', view.details(row))
        self.assertEqual('port 5e6f1a0c', view.details(
            row._replace(port='5e6f1a0c')))


class TablesTest(base.TestCase):

    def shown(self, file):
        tables = view.Tables(file)
        tables.start(['203.0.113.10'], ['kernel', 'datapath'])
        tables.refresh(LOST, 2.0, 4)
        tables.end('signal', 2.0, 14)
        return file.getvalue()

    def test_tables_in_a_file_follow_each_other(self):
        text = self.shown(io.StringIO())
        self.assertNotIn('\x1b', text)
        self.assertIn('Watching 1 VIP; sources: kernel, datapath.', text)
        self.assertIn('6 packets lost in 2.0 s, 14 since the start', text)
        self.assertIn('4 packets not listed', text)
        self.assertTrue(text.endswith(
            'Ended (signal): 14 packets lost in 2.0 s.\n'))

    def test_table_on_a_terminal_fits_it(self):
        for name, value in ('COLUMNS', '40'), ('LINES', '6'):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        text = self.shown(Terminal())
        table = text[text.index(view.CLEAR_SCREEN):text.index('Ended')]
        self.assertLessEqual(len(table.splitlines()), 6)
        for line in table.replace(view.CLEAR_SCREEN, '').splitlines():
            self.assertLessEqual(len(line), 40)
        self.assertIn('2 more', table)


class JsonLinesTest(base.TestCase):

    def test_each_line_is_an_object_with_its_fields(self):
        file = io.StringIO()
        lines = view.JsonLines(file)
        lines.start(['b', 'a'], ['kernel'])
        lines.refresh(LOST[:1], 1.23456, 4, ['a', 'b'])
        lines.end('count', 1.23456, 14)
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
                 'action': None, 'program': None, 'program_id': None,
                 'port': None}]},
            drops)
        self.assertEqual({'type': 'end', 'why': 'count', 'seconds': 1.235,
                          'total': 14}, end)

    def test_reading_without_losses_gives_a_line(self):
        file = io.StringIO()
        view.JsonLines(file).refresh([], 1.0, 0)
        self.assertEqual([], json.loads(file.getvalue())['drops'])
