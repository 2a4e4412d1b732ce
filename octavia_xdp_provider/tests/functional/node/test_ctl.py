# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl show, verify and top: need root."""

import json
import os
import subprocess
import sys

from octavia_xdp_provider.ctl import rates
from octavia_xdp_provider.tests.functional.support import ctl_node
from octavia_xdp_provider.tests.functional.support import private_node as base
from octavia_xdp_provider.tests.functional.support.ctl_node import SOON
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support.clients import CLIENT
from octavia_xdp_provider.tests.support.clients import DNS
from octavia_xdp_provider.tests.support.clients import HTTP
from octavia_xdp_provider.tests.support.clients import HTTP_V6
from octavia_xdp_provider.tests.support.clients import TCP
from octavia_xdp_provider.tests.support.clients import UDP
from octavia_xdp_provider.tests.support.clients import VIP
from octavia_xdp_provider.tests.support.clients import VIP_V6
from octavia_xdp_provider.tests.support.clients import with_
from octavia_xdp_provider.tests.support.terminal import Screen


class TestOutput(ctl_node.Node):
    """Where the output goes is not the command's business."""

    def end(self, *words, stdout):
        environment = {name: value for name, value in os.environ.items()
                       if name != 'PYTHONUNBUFFERED'}
        return subprocess.run(
            self.words(*words), stdout=stdout, stderr=subprocess.PIPE,
            text=True, timeout=SOON, env=environment)

    def commands(self):
        return (('show', 'services'), ('show', 'tables', '--json'),
                ('explain', 'tcp', f'{CLIENT}:1', f'{VIP}:80'),
                ('top', '--batch', '-n', '1', '--interval', '0.1'))

    @form.in_long_form
    def test_commands_end_quietly_when_the_reader_has_gone(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, writer)
        for words in *self.commands(), ('verify',):
            end = self.end(*words, stdout=writer)
            self.assertEqual((0, ''), (end.returncode, end.stderr), words)
        # the status says what it found all the same
        self.spoil(DNS)
        self.assertEqual(1, self.end('verify', stdout=writer).returncode)

    @form.in_long_form
    def test_full_disk_is_reported_in_one_line(self):
        with open('/dev/full', 'w') as full:
            for words in *self.commands(), ('verify',):
                end = self.end(*words, stdout=full)
                self.assertEqual(2, end.returncode, words)
                self.assertEqual(1, len(end.stderr.splitlines()), end.stderr)
                self.assertIn('No space left', end.stderr)


class TestPrivileges(ctl_node.Node):

    def refusal(self, *words):
        words = self.words(*words)
        place = words.index(sys.executable)
        words[place:place] = ['setpriv', '--bounding-set', '-all',
                              '--inh-caps', '-all']
        end = subprocess.run(words, capture_output=True, text=True,
                             timeout=SOON)
        self.assertEqual((2, ''), (end.returncode, end.stdout), end.stderr)
        text, = end.stderr.splitlines()
        return text

    def test_missing_capabilities_are_named(self):
        for words in (('show', 'programs'), ('trace', VIP),
                      ('explain', 'tcp', f'{CLIENT}:1', f'{VIP}:80')):
            self.assertIn('CAP_SYS_ADMIN is needed', self.refusal(*words))


class TestShow(ctl_node.SharedNode):

    def test_shown_services_and_members_are_the_nodes(self):
        self.assertEqual(
            [(VIP, 'TCP', 80, 2, 'ipip'), (VIP, 'UDP', 53, 1, 'gue'),
             (VIP_V6, 'TCP', 80, 2, 'ipip')],
            [(row['vip'], row['protocol'], row['port'], row['members'],
              row['encapsulation']) for row in self.json('show', 'services')])
        self.assertEqual(['10.1.0.4', 'fd00:1::1'], sorted(
            row['address'] for row in self.json(
                'show', 'members', '--vip', VIP_V6)))
        shown = self.ctl('show', 'members', '--protocol', 'udp')
        self.assertEqual('', shown.stderr)
        text = shown.stdout
        self.assertIn('10.1.0.3', text)
        self.assertNotIn('10.1.0.1', text)

    def test_filter_without_match_is_pointed_out(self):
        for subject in 'services', 'members', 'tables', 'counters':
            shown = self.ctl('show', subject, '--vip', '192.0.2.99', '--json')
            self.assertIn('no such service', shown.stderr)
            self.assertNotIn(VIP, shown.stdout)
            json.loads(shown.stdout)

    @form.in_long_form
    def test_shown_neighbours_and_programs_are_the_kernels(self):
        base.command('ip', '-n', self.node, 'neighbour', 'add',
                     '198.18.0.1', 'lladdr', base.NEXT_HOP_MAC, 'dev', 'up0')
        v4, v6 = self.json('show', 'neighbours')
        self.assertEqual(('up0', base.NEXT_HOP_MAC, 100.0), (
            v4['interface'], v4['gateway_mac'], v4['flows_percent']))
        self.assertEqual([{'address': '198.18.0.1', 'state': 'permanent',
                           'interface': 'up0'}], v4['kernel'])
        self.assertEqual([], v6['kernel'])
        self.assertIn('198.18.0.1 permanent',
                      self.ctl('show', 'neighbours').stdout)
        shown = self.json('show', 'programs')
        program, = shown['programs']
        link = base.command('ip', '-n', self.node, '-d', 'link', 'show',
                            'up0')
        self.assertIn(f'prog/xdp id {program["id"]} ', link)
        self.assertEqual(('up0', 'driver', 'oxp_forward'), (
            program['interface'], program['mode'], program['name']))
        self.assertIn(program['tag'], self.ctl('show', 'programs').stdout)

    def test_shown_settings_and_counters_are_the_nodes(self):
        shown = self.json('show', 'settings')
        self.assertEqual(('10.0.0.0', 4, ['echo', 'clamp_mss']), (
            shown['node']['source_v4'], shown['node']['entropy_v4'],
            shown['node']['flags']))
        self.assertEqual([None, ['198.51.100.0/24'], None],
                         [row['allowed'] for row in shown['services']])
        self.assertIn('198.51.100.0/24', self.ctl('show', 'settings').stdout)
        refused = with_(UDP, source='192.0.2.9')
        with self.inside(self.node):
            self.datapath.run([(with_(TCP), self.ifindex),
                               (refused, self.ifindex)])
        shown = self.json('show', 'counters', '--vip', VIP)
        self.assertEqual({'packets': 1, 'bytes': len(refused)},
                         shown['outcomes']['drop_not_allowed'])
        self.assertEqual([1, 0], [row['packets']
                                  for row in shown['services']])
        line, = [line.split() for line in
                 self.ctl('show', 'counters').stdout.splitlines()
                 if line.startswith('drop_not_allowed')]
        self.assertEqual(['drop_not_allowed', '1', str(len(refused))], line)

    def test_verify_finds_no_fault_in_right_tables(self):
        self.assertIn('3 services', self.ctl('verify').stdout)


class TestTop(ctl_node.SharedNode):

    def test_batch_writes_so_many_views(self):
        view = self.json('top', '--batch', '-n', '1', '--interval', '0.1')
        self.assertEqual(3, view['services'])
        text = self.ctl('top', '--batch', '-n', '2', '--interval', '0.1',
                        '--rows', '1').stdout
        self.assertEqual(2, text.count('TCP 192.0.2.1:80'))
        self.assertNotIn('UDP', text)
        self.assertIn('--batch', self.ctl('top', status=2).stderr)
        lines = self.ctl('top', '--batch', '-n', '2', '--interval', '0.1',
                         '--json').stdout.splitlines()
        self.assertEqual([3, 3], [json.loads(line)['services']
                                  for line in lines])

    @form.in_long_form
    def test_terminals_without_cursor_are_refused_by_name(self):
        """Those of serial lines, too; others are refused by name."""
        for terminal, status in ('vt100', 0), ('ansi', 0), ('dumb', 2), (
                'none-such', 2), (None, 2):
            screen = Screen(self.words('top', '--interval', '0.2'), terminal,
                            lines=6, columns=20)
            self.addCleanup(screen.close)
            if status:
                self.assertIn(terminal or 'TERM', screen.expect('--batch'))
            else:
                screen.expect('SERVICE')
                screen.press('q')
            self.assertEqual(status, screen.wait(), terminal)

    @form.in_long_form
    def test_screen_without_keyboard_is_refused(self):
        """Reading keys would come back at once, again and again."""
        screen = Screen(['sh', '-c', 'exec "$@" </dev/null', 'sh',
                         *self.words('top')], 'xterm')
        self.addCleanup(screen.close)
        screen.expect('needs a terminal')
        self.assertEqual(2, screen.wait())

    def test_screen_shows_services_and_members(self):
        """In a terminal: services, members of one, and the end."""
        screen = Screen(self.words('top', '--interval', '0.2'), 'xterm')
        self.addCleanup(screen.close)
        screen.expect('PACKETS/S')
        screen.press('\n')
        screen.expect('10.1.0.2')
        screen.press('q')
        self.assertEqual(0, screen.wait())


class TestOther(ctl_node.Node):
    """Nodes that are not as the others are."""

    @form.in_long_form
    def test_commands_work_without_services(self):
        self.datapath.delete_services((HTTP, DNS, HTTP_V6))
        for words in (('services',), ('members',), ('tables',), ('counters',),
                      ('settings',), ('nat',)):
            self.json('show', *words)
            self.assertEqual('', self.ctl('show', *words).stderr)
        self.assertIn('0 services', self.ctl('verify').stdout)
        self.assertEqual(0, self.json('top', '--batch', '-n', '1',
                                      '--interval', '0.1')['services'])
        self.assertIn('is none of this node', self.ctl(
            'explain', 'tcp', f'{CLIENT}:1', f'{VIP}:80').stdout)

    def test_shown_tables_are_the_nodes(self):
        self.set(HTTP, ['10.1.0.1', '10.1.0.2', '10.1.0.5'])
        shown, = self.json('show', 'tables', '--vip', VIP, '--port', '80')
        self.assertEqual(base.SLOTS, sum(
            row['slots'] for row in shown['members']))
        self.assertEqual([row['slots'] for row in shown['members']], [
            self.datapath.table(HTTP).count(address)
            for address in ('10.1.0.1', '10.1.0.2', '10.1.0.5')])
        self.assertEqual(self.datapath.service(HTTP).open_slots,
                         shown['open_slots'])
        self.assertGreater(shown['open_slots'], 0)
        self.assertEqual(0, shown['members'][2]['slots_before'])
        self.assertIn(f'{shown["open_slots"]} open',
                      self.ctl('show', 'tables').stdout)

    def test_verify_names_the_service_of_a_wrong_table(self):
        self.spoil(DNS)
        result = self.json_with(1, 'verify')
        self.assertEqual([(VIP, 'UDP', 53)], [
            (fault['vip'], fault['protocol'], fault['port'])
            for fault in result['faults']])
        self.assertIn('53', self.ctl('verify', status=1).stdout)

    def json_with(self, status, *words):
        return json.loads(self.ctl(*words, '--json', status=status).stdout)

    def test_verify_fails_without_a_datapath(self):
        self.datapath.destroy()
        self.assertIn('no datapath', self.ctl('verify', status=2).stderr)

    def test_rates_count_what_was_forwarded_and_dropped(self):
        meter = rates.Meter(self.datapath)
        martian = with_(TCP, source='127.0.0.1')
        with self.inside(self.node):
            self.datapath.run([(with_(TCP, syn=True), self.ifindex)] * 30
                              + [(with_(UDP), self.ifindex)] * 50
                              + [(martian, self.ifindex)] * 5)
        view = meter.view('packets', 2)
        self.assertEqual(
            [(DNS, 50, 0), (HTTP, 30, 30)],
            [(row.name, round(row.packets * view.seconds),
              round(row.flows * view.seconds)) for row in view.rows])
        self.assertEqual(('DROP_MARTIAN', (5, 5 * len(martian))),
                         view.outcomes[0][::2])
        self.assertEqual(80, round(view.total.packets * view.seconds))
