# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-member on a host in a namespace: needs root."""

import json
import os
import tempfile

from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import member_tool

command = fabric.command
FULL = member_tool.FULL
OTHER_VIP = member_tool.OTHER_VIP


class TestSetup(member_tool.Tool):

    def test_remove_leaves_what_was_before_setup(self):
        before = self.state()
        for mode in ((), ('--generic',), ('--tc',)):
            self.tool(*FULL, *mode)
            self.assertLessEqual({fabric.VIP, fabric.VIP6}, self.addresses())
            self.assertEqual({}, self.check())
            self.tool('remove', 'eth0')
            self.assertEqual(before, self.state())
        self.assertIn('nothing', self.tool('remove', 'eth0'))
        self.assertEqual(before, self.state())

    def test_twice_changes_nothing(self):
        for mode in ((), ('--generic',), ('--tc',)):
            self.tool(*FULL, *mode)
            first = self.state()
            self.tool(*FULL, *mode)
            self.assertEqual(first, self.state())

    def test_setup_of_the_next_release_is_named_and_replaced(self):
        self.tool(*FULL)
        self.write_version(2)
        self.assertIn('another version', self.check()['programs'])
        self.assertIn('run setup again', self.refused('show', 'eth0'))
        self.tool(*FULL)
        self.assertEqual({}, self.check())

    def write_version(self, version):
        """Return a field of the record that a setup leaves."""
        def bpftool(*words):
            return json.loads(command('bpftool', '-j', *words) or 'null')
        link, = json.loads(self.run_in(
            self.member, 'ip', '-j', '-d', 'link', 'show', 'eth0'))
        program = bpftool('prog', 'show', 'id', str(
            link['xdp']['prog']['id']))
        number, = (str(map_id) for map_id in program['map_ids'] if bpftool(
            'map', 'show', 'id', str(map_id))['name'] == 'record')
        (entry,) = bpftool('map', 'dump', 'id', number)
        value = [int(byte, 16).to_bytes(1, 'little').hex()
                 for byte in entry['value']]
        value[:4] = version.to_bytes(4, 'little').hex(' ').split()
        command('bpftool', 'map', 'update', 'id', number, 'key', 'hex',
                '00', '00', '00', '00', 'value', 'hex', *value)

    def test_modes_follow_each_other(self):
        before = self.state()
        native, generic, tc = (), ('--generic',), ('--tc',)
        # Each of them after each.
        for mode in (native, native, generic, generic, tc, tc, native, tc,
                     generic, native):
            self.tool(*FULL, *mode)
            self.assertEqual({}, self.check(*FULL[1:-1], *mode))
        self.tool('remove', 'eth0')
        self.assertEqual(before, self.state())

    def test_a_second_setup_replaces_the_first_ones_settings(self):
        self.tool(*FULL)
        self.assertEqual({}, self.check(*FULL[1:-1]))
        self.assertIn('arguments', self.check('--vip', OTHER_VIP,
                                              '--any-source'))
        self.tool('setup', '--vip', OTHER_VIP, '--any-source', 'eth0')
        self.assertEqual({'127.0.0.1', '::1', OTHER_VIP}, self.addresses())
        shown = json.loads(self.tool('show', '--json', 'eth0'))
        self.assertEqual(([OTHER_VIP], [], [], [], True),
                         (shown['vip'], shown['node'], shown['port'],
                          shown['dscp'], shown['any-source']))
        # without --sysctl they are as they were
        self.assertIn('arp', self.check())
        self.tool('setup', '--vip', OTHER_VIP, '--any-source', '--no-address',
                  'eth0')
        self.assertEqual({'127.0.0.1', '::1'}, self.addresses())

    def test_others_addresses_stay(self):
        command('ip', '-n', self.member, 'address', 'add', fabric.VIP, 'dev',
                'lo')
        self.tool(*FULL)
        self.tool('remove', 'eth0')
        self.assertIn(fabric.VIP, self.addresses())
        self.assertNotIn(fabric.VIP6, self.addresses())

    def test_others_filters_stay(self):
        self.run_in(self.member, 'tc', 'qdisc', 'add', 'dev', 'eth0',
                    'clsact')
        self.add_filter()
        before = self.state()
        self.tool(*FULL, '--tc')
        self.tool('remove', 'eth0')
        self.assertEqual(before, self.state())

    def test_filters_that_came_later_stay(self):
        self.tool(*FULL)
        self.add_filter()
        self.tool('remove', 'eth0')
        self.assertIn('pass_all_tc', self.state()['filters'][0])
        self.assertEqual('', self.state()['filters'][1])

    def test_an_empty_qdisc_stays(self):
        self.run_in(self.member, 'tc', 'qdisc', 'add', 'dev', 'eth0',
                    'clsact')
        before = self.state()
        self.tool('remove', 'eth0')
        self.tool(*FULL)
        self.tool('remove', 'eth0')
        self.assertEqual(before, self.state())

    def test_two_interfaces_share_a_vip(self):
        command('ip', '-n', self.member, 'link', 'add', 'eth1', 'type',
                'veth', 'peer', 'name', 'gw1')
        command('ip', '-n', self.member, 'address', 'add', '10.2.0.1/24',
                'dev', 'eth1')
        for interface in ('eth0', 'eth1'):
            self.tool('setup', '--vip', fabric.VIP, '--any-source', interface)
        self.tool('remove', 'eth0')
        self.assertIn(fabric.VIP, self.addresses())
        self.tool('remove', 'eth1')
        self.assertNotIn(fabric.VIP, self.addresses())

    def test_counters_go_on(self):
        self.tool(*FULL)
        self.send(fabric.tunnel(bytes(fabric.inet.IP(
            src=fabric.CLIENT, dst=fabric.VIP) / b''), source='10.99.0.1'))
        # veth delivers on another CPU
        self.wait('drop', lambda: self.counters()['drop_source'])
        self.tool('setup', '--vip', fabric.VIP, '--any-source', '--tc',
                  'eth0')
        self.assertEqual(1, self.counters()['drop_source'])


class TestConfigFile(member_tool.Tool):

    def file(self, text):
        with tempfile.NamedTemporaryFile('w', delete=False) as file:
            file.write(text)
        self.addCleanup(os.unlink, file.name)
        return file.name

    def test_serves_all_commands(self):
        name = self.file(f"""\
# a member
interface = eth0
vip = {fabric.VIP}   # and more
vip={fabric.VIP6}
node = 10.0.0.0/24
port = [{fabric.VIP6}]:53/udp=5353
sysctl = yes
tc = no
""")
        self.tool('setup', '--config', name)
        self.tool('check', '--config', name)
        self.tool('show', '--config', name)
        self.assertEqual([fabric.VIP, fabric.VIP6], json.loads(self.tool(
            'show', '--json', '--config', name))['vip'])
        self.tool('remove', '--config', name)
        self.assertIsNone(self.program())

    def test_what_show_says_is_one(self):
        self.tool(*FULL)
        settings = self.tool('show', 'eth0').split('\n\n')[0]
        self.tool('remove', 'eth0')
        name = self.file(settings)
        self.tool('setup', '--config', name)
        self.assertEqual(settings,
                         self.tool('show', 'eth0').split('\n\n')[0])

    def test_a_wrong_file_is_refused_with_line_or_key(self):
        for text, said in (
                ('vips = 203.0.113.10\n', 'vips: no such key'),
                ('\nvip 203.0.113.10\n', 'line 2'),
                ('tc = true\n', 'yes or no'),
                ('config = /dev/null\n', 'no such key'),
                ('interface = eth1\n', 'one interface')):
            self.assertIn(said, self.refused(
                'setup', 'eth0', '--config', self.file(text)))
        self.assertIn('No such file', self.refused(
            'setup', 'eth0', '--config', '/nonexistent'))


class TestRefused(member_tool.Tool):

    def test_wrong_settings_are_refused_by_name(self):
        vip = ('--vip', fabric.VIP)
        http = f'{fabric.VIP}:80'
        for words, said in (
                (vip, '--any-source'),
                ((*vip, '--any-source', *fabric.NODES), 'contradict'),
                (('--vip', '127.0.0.1', '--any-source'), "can't be a VIP"),
                (('--vip', 'fe80::1', '--any-source'), "can't be a VIP"),
                (('--vip', '1.2.3', '--any-source'), 'vip 1.2.3'),
                ((*vip, '--node', '10.0.0.1/24'), 'behind its prefix'),
                ((*vip, '--any-source', '--address', fabric.VIP),
                 'is a VIP'),
                ((*vip, '--any-source', '--port', f'{http}/sctp=81'), 'CRC'),
                ((*vip, '--any-source', '--port', f'{http}/tcp=80'),
                 'the same'),
                ((*vip, '--any-source', '--port', f'{http}/tcp=0'), 'LOCAL'),
                ((*vip, '--any-source', '--port', '192.0.2.9:80/tcp=81'),
                 'none of --vip'),
                ((*vip, '--any-source', '--port', f'{http}/tcp=81', '--port',
                  f'{http}/tcp=82'), 'two ports'),
                ((*vip, '--any-source', '--port', f'{http}/tcp=81', '--port',
                  f'{fabric.VIP}:90/tcp=81'), 'answers from one port'),
                ((*vip, '--any-source', '--dscp', f'0={fabric.VIP}'),
                 '1 to 63'),
                ((*vip, '--any-source', '--dscp', '7=192.0.2.9'),
                 'none of --vip'),
                ((*vip, '--any-source', '--mss', '100'), 'mss 100'),
                ((*vip, '--any-source', '--tc', '--generic'), 'not both')):
            with self.subTest(said, words=words):
                self.assertIn(said, self.refused('setup', *words, 'eth0'))
        self.assertIn('no interface eth9', self.refused(
            'setup', *vip, '--any-source', 'eth9'))
        self.assertIn('no Ethernet', self.refused(
            'setup', *vip, '--any-source', 'lo'))

    def test_wrong_command_lines_are_refused_with_the_reason(self):
        for words, said in (
                (('setup',), 'which interface'),
                ((), 'usage'),
                (('mend', 'eth0'), 'no such command'),
                (('remove', '--tc', 'eth0'), 'nothing else'),
                (('show', 'eth0', 'eth1'), 'one word'),
                (('setup', '--json', 'eth0'), 'no --json'),
                (('setup', '--nonsense', 'eth0'), 'nonsense')):
            self.assertIn(said, self.refused(*words))
        done = self.try_tool('setup', '--help')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertIn('usage', done.stdout)

    def test_another_xdp_program(self):
        self.run_in(self.member, 'ip', 'link', 'set', 'eth0', 'xdpdrv',
                    'object', str(member_tool.FOREIGN), 'section', 'xdp')
        self.assertIn('another XDP program', self.refused(*FULL))
        self.tool(*FULL, '--tc')
        self.tool('remove', 'eth0')
        self.assertIsNotNone(self.program())

    def test_lo_is_down(self):
        command('ip', '-n', self.member, 'link', 'set', 'lo', 'down')
        self.assertIn('lo is down', self.refused(*FULL))


class TestCheck(member_tool.Tool):

    def test_nothing_is_set_up(self):
        self.assertIn('programs', self.check())

    def test_says_what_is_wrong(self):
        self.tool(*FULL)
        command('ip', '-n', self.member, 'address', 'del', f'{fabric.VIP}/32',
                'dev', 'lo')
        self.assertIn('ip address add', self.check()['vip'])
        self.tool(*FULL)
        self.sysctl(self.member, ipv4__conf__eth0__arp_ignore=0)
        self.assertIn('arp_ignore=1', self.check()['arp'])
        self.tool(*FULL)
        command('ip', '-n', self.member, 'address', 'del', f'{fabric.OWN}/24',
                'dev', 'eth0')
        self.assertIn('address', self.check())
        command('ip', '-n', self.member, 'address', 'add', f'{fabric.OWN}/24',
                'dev', 'eth0')
        self.assertEqual({}, self.check())
        command('ip', '-n', self.member, 'link', 'set', 'eth0', 'mtu', '1400')
        self.assertIn('mtu', self.check())
        self.tool(*FULL)
        self.assertEqual({}, self.check())
        self.sysctl(self.member, ipv6__conf__lo__disable_ipv6=1)
        self.assertIn('ipv6', self.check())

    def test_a_program_is_missing(self):
        self.tool(*FULL)
        self.run_in(self.member, 'tc', 'filter', 'del', 'dev', 'eth0',
                    'egress')
        self.assertIn('only a part', self.check()['programs'])
        self.tool(*FULL)
        self.assertEqual({}, self.check())
        command('ip', '-n', self.member, 'link', 'set', 'eth0', 'xdp', 'off')
        self.assertIn('nothing is set up', self.check()['programs'])

    def test_one_of_two_programs_is_detached(self):
        """The other one is not taken for it."""
        self.tool(*FULL[:-1], '--member', '198.18.10.0/24', 'eth0')
        command('ip', '-n', self.member, 'link', 'set', 'eth0', 'xdp', 'off')
        wrong = self.check()
        self.assertIn('only a part', wrong.pop('programs'))
        self.assertEqual({}, wrong)

    def test_tries_a_vip_whose_udp_checksum_is_0(self):
        """The packet that is tried has the checksum 0xffff: 0 means none."""
        vip = '198.18.219.128'
        self.tool('setup', '--any-source', '--vip', vip, '--dscp',
                  f'10={vip}', '--port', f'{vip}:80/udp=9', '--sysctl',
                  'eth0')
        self.assertEqual({}, self.check())

    def test_counts_no_probes(self):
        self.tool(*FULL)
        self.tool('check', 'eth0')
        self.assertEqual(0, sum(self.counters().values()))
