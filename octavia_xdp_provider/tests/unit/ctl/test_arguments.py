# SPDX-License-Identifier: Apache-2.0

import contextlib
import io

from octavia_xdp_provider.cmd import ctl
from octavia_xdp_provider.ctl import explain
from octavia_xdp_provider.ctl import node
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.node.types import Key
from octavia_xdp_provider.tests.unit import base


class TestArguments(base.TestCase):

    def parse(self, text):
        commands = ctl.parser()
        arguments = commands.parse_args(text.split())
        ctl._check(commands, arguments)
        return arguments

    def refused(self, text):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            error = self.assertRaises(SystemExit, self.parse, text)
        self.assertEqual(2, error.code)
        return errors.getvalue()

    def test_filters_match_address_protocol_and_port(self):
        arguments = self.parse('show services --vip 2001:DB8::1 '
                               '--protocol tcp --port 80')
        key = Key('2001:db8::1', 'TCP', 80)
        self.assertTrue(node.matches(arguments, key))
        for other in (key._replace(address='2001:db8::2'),
                      key._replace(protocol='UDP'), key._replace(port=81)):
            self.assertFalse(node.matches(arguments, other))
        self.assertTrue(node.matches(self.parse('show members'), key))

    def test_wrong_arguments_are_refused_by_name(self):
        for text, what in (
                ('', 'COMMAND'), ('show', 'SUBJECT'), ('show everything', ''),
                ('show services --vip web', '--vip'),
                ('show services --vip ::ffff:192.0.2.1', '--vip'),
                ('show services --protocol icmp', '--protocol'),
                ('show services --port 65536', '--port'),
                ('top --interval 0', '--interval'),
                ('top --interval abc', 'no number of seconds'),
                ('top -n 3', '--batch'),
                ('top --json', '--batch'), ('top --sort name', '--sort'),
                ('trace', 'VIP'), ('trace 192.0.2.1 --snaplen 4000',
                                   '--snaplen'),
                ('trace 192.0.2.1 --every 0', '--every'),
                ('explain --dscp 64', '--dscp'),
                ('explain --vlan 4096', '--vlan'),
                ('explain --payload xyz', '--payload'),
                ('explain --vlan 1 --vlan 2 --vlan 3', 'at most twice'),
                ('explain --number 3', '--file'),
                ('explain --fragment middle', '--fragment')):
            self.assertIn(what, self.refused(text), text)

    def wanted(self, text):
        return explain.wanted_packet(self.parse('explain ' + text))

    def test_arguments_describe_the_packet(self):
        self.assertEqual(
            packet.Wanted('tcp', '198.51.100.7', '203.0.113.10', 40000, 80,
                          syn=True, length=100, dscp=3, vlans=(7,),
                          fragment='first', may_fragment=True,
                          payload=b'\x01\x02'),
            self.wanted('tcp 198.51.100.7:40000 203.0.113.10:80 --syn '
                        '--length 100 --dscp 3 --vlan 7 --fragment first '
                        '--may-fragment --payload 0102'))
        self.assertEqual(
            packet.Wanted('udp', '2001:db8::7', '2001:db8::1', 1, 53),
            self.wanted('udp [2001:db8::7]:1 [2001:db8::1]:53'))
        self.assertEqual(
            packet.Wanted('icmp', '2001:db8::7', '2001:db8::1'),
            self.wanted('icmp 2001:db8::7 2001:db8::1'))

    def test_incomplete_packets_are_refused(self):
        for text, what in (
                ('', 'PROTOCOL'), ('tcp 192.0.2.1:1', 'PROTOCOL'),
                ('gre 192.0.2.1:1 192.0.2.2:2', 'gre'),
                ('tcp 192.0.2.1 192.0.2.2:2', 'SOURCE'),
                ('tcp 192.0.2.1:1 192.0.2.2:65536', 'DESTINATION'),
                ('tcp 2001:db8::1:1 [2001:db8::2]:1', 'SOURCE'),
                ('icmp 192.0.2.1:1 192.0.2.2', 'SOURCE'),
                ('udp 192.0.2.1:1 192.0.2.2:2 --syn', '--syn')):
            error = self.assertRaises(packet.PacketError, self.wanted, text)
            self.assertIn(what, str(error), text)

    def test_failures_are_reported_on_stderr(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(2, ctl.main([
                '--library', '/nowhere.so', 'verify']))
        self.assertIn('/nowhere.so', errors.getvalue())
