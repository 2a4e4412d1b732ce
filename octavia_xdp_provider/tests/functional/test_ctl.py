# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl show, verify and top: need root."""

import json
import os
import pty
import select
import signal
import time

from octavia_xdp_provider.ctl import rates
from octavia_xdp_provider.tests.functional import ctl_node
from octavia_xdp_provider.tests.functional import test_datapath as base
from octavia_xdp_provider.tests.functional.ctl_node import DNS
from octavia_xdp_provider.tests.functional.ctl_node import HTTP
from octavia_xdp_provider.tests.functional.ctl_node import SOON
from octavia_xdp_provider.tests.functional.ctl_node import TCP
from octavia_xdp_provider.tests.functional.ctl_node import UDP
from octavia_xdp_provider.tests.functional.ctl_node import VIP
from octavia_xdp_provider.tests.functional.ctl_node import VIP_V6
from octavia_xdp_provider.tests.functional.ctl_node import with_


class TestShow(ctl_node.Node):

    def test_services_and_members(self):
        self.assertEqual(
            [(VIP, 'TCP', 80, 2, 'ipip'), (VIP, 'UDP', 53, 1, 'gue'),
             (VIP_V6, 'TCP', 80, 2, 'ipip')],
            [(one['vip'], one['protocol'], one['port'], one['members'],
              one['encapsulation']) for one in self.json('show', 'services')])
        self.assertEqual(['10.1.0.4', 'fd00:1::1'], sorted(
            one['address'] for one in self.json(
                'show', 'members', '--vip', VIP_V6)))
        text = self.ctl('show', 'members', '--protocol', 'udp').stdout
        self.assertIn('10.1.0.3', text)
        self.assertNotIn('10.1.0.1', text)

    def test_tables(self):
        self.set(HTTP, ['10.1.0.1', '10.1.0.2', '10.1.0.5'])
        shown, = self.json('show', 'tables', '--vip', VIP, '--port', '80')
        self.assertEqual(base.SLOTS, sum(
            one['slots'] for one in shown['members']))
        self.assertEqual([one['slots'] for one in shown['members']], [
            self.datapath.table(HTTP).count(address)
            for address in ('10.1.0.1', '10.1.0.2', '10.1.0.5')])
        self.assertEqual(self.datapath.service(HTTP).open_slots,
                         shown['open_slots'])
        self.assertGreater(shown['open_slots'], 0)
        self.assertEqual(0, shown['members'][2]['slots_before'])
        self.assertIn(f'{shown["open_slots"]} open',
                      self.ctl('show', 'tables').stdout)

    def test_neighbours_and_programs(self):
        base.command('ip', '-n', self.node, 'neighbour', 'add',
                     '198.18.0.1', 'lladdr', base.GATEWAY_MAC, 'dev', 'up0')
        v4, v6 = self.json('show', 'neighbours')
        self.assertEqual(('up0', base.GATEWAY_MAC, 100.0), (
            v4['interface'], v4['gateway_mac'], v4['flows_percent']))
        self.assertEqual([{'address': '198.18.0.1', 'state': 'permanent',
                           'interface': 'up0'}], v4['kernel'])
        self.assertEqual([], v6['kernel'])
        self.assertIn('198.18.0.1 permanent',
                      self.ctl('show', 'neighbours').stdout)
        shown = self.json('show', 'programs')
        one, = shown['programs']
        link = base.command('ip', '-n', self.node, '-d', 'link', 'show',
                            'up0')
        self.assertIn(f'prog/xdp id {one["id"]} ', link)
        self.assertEqual(('up0', 'driver', 'oxp_forward'), (
            one['interface'], one['mode'], one['name']))
        self.assertIn(one['tag'], self.ctl('show', 'programs').stdout)

    def test_settings_and_counters(self):
        shown = self.json('show', 'settings')
        self.assertEqual(('10.0.0.0', 4, ['echo', 'clamp_mss']), (
            shown['node']['source_v4'], shown['node']['entropy_v4'],
            shown['node']['flags']))
        self.assertEqual([None, ['198.51.100.0/24'], None],
                         [one['allowed'] for one in shown['services']])
        self.assertIn('198.51.100.0/24', self.ctl('show', 'settings').stdout)
        with self.inside(self.node):
            self.datapath.run([(with_(TCP), self.ifindex),
                               (with_(UDP, source='192.0.2.9'),
                                self.ifindex)])
        shown = self.json('show', 'counters', '--vip', VIP)
        self.assertEqual(1, shown['outcomes']['drop_not_allowed'])
        self.assertEqual([1, 0], [one['packets']
                                  for one in shown['services']])
        self.assertIn('drop_not_allowed', self.ctl('show', 'counters').stdout)


class TestVerify(ctl_node.Node):

    def test_right(self):
        self.assertIn('3 services', self.ctl('verify').stdout)

    def test_wrong(self):
        memory, size = self.tables()
        index = self.datapath.service(DNS).index
        slots = size - 4 * 1024  # those and `before`, rounded to 32 each
        for block in (2 * index, 2 * index + 1):
            place = block * size + slots + 2 * 5
            memory[place:place + 2] = b'\xff\x7f'
        result = self.json_with(1, 'verify')
        self.assertEqual([(VIP, 'UDP', 53)], [
            (one['vip'], one['protocol'], one['port'])
            for one in result['faults']])
        self.assertIn('53', self.ctl('verify', status=1).stdout)

    def json_with(self, status, *words):
        return json.loads(self.ctl(*words, '--json', status=status).stdout)

    def test_nothing_there(self):
        self.datapath.destroy()
        self.assertIn('no datapath', self.ctl('verify', status=2).stderr)


class TestTop(ctl_node.Node):

    def test_rates(self):
        meter = rates.Meter(self.datapath)
        with self.inside(self.node):
            self.datapath.run([(with_(TCP, syn=True), self.ifindex)] * 30
                              + [(with_(UDP), self.ifindex)] * 50
                              + [(with_(TCP, source='127.0.0.1'),
                                  self.ifindex)] * 5)
        view = meter.view('packets', 2)
        self.assertEqual(
            [(DNS, 50, 0), (HTTP, 30, 30)],
            [(row.name, round(row.packets * view.seconds),
              round(row.flows * view.seconds)) for row in view.rows])
        self.assertEqual(('DROP_MARTIAN', 5), view.outcomes[0][::2])
        self.assertEqual(80, round(view.total.packets * view.seconds))

    def test_batch(self):
        found = self.json('top', '--batch', '-n', '1', '--interval', '0.1')
        self.assertEqual(3, found['services'])
        text = self.ctl('top', '--batch', '-n', '2', '--interval', '0.1',
                        '--rows', '1').stdout
        self.assertEqual(2, text.count('TCP 192.0.2.1:80'))
        self.assertNotIn('UDP', text)
        self.assertIn('--batch', self.ctl('top', status=2).stderr)

    def test_screen(self):
        """In a terminal: services, members of one, and the end."""
        process, terminal = pty.fork()
        if not process:
            os.environ['TERM'] = 'xterm'
            words = self.words('top', '--interval', '0.2')
            os.execvp(words[0], words)
        self.addCleanup(os.close, terminal)
        seen = b''

        def expect(what):
            nonlocal seen
            end = time.monotonic() + SOON
            while what not in seen:
                ready, _, _ = select.select([terminal], [], [], 1)
                self.assertLess(time.monotonic(), end, seen)
                if ready:
                    try:
                        seen += os.read(terminal, 65536)
                    except OSError:
                        self.fail(seen)
            seen = b''
        try:
            expect(b'PACKETS/S')
            os.write(terminal, b'\n')
            expect(b'10.1.0.2')
            os.write(terminal, b'q')
            _pid, status = os.waitpid(process, 0)
            process = None
        finally:
            if process:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        self.assertEqual(0, os.waitstatus_to_exitcode(status))
