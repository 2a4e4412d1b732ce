# SPDX-License-Identifier: Apache-2.0
"""Answers of VMs that do not fit where they leave, byte by byte."""

import itertools

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.models.host_model import model
from octavia_xdp_provider.tests.packets.support import environment
from octavia_xdp_provider.tests.packets.support import host
from octavia_xdp_provider.tests.packets.support import host_case

MTU = 1400
SENT, DROP = 'SENT_TOO_BIG', 'DROP_TOO_BIG'
# Bytes of the headers of IP and of the transport protocol.
HEADERS = {(False, 'tcp'): 40, (False, 'udp'): 28, (True, 'tcp'): 60,
           (True, 'udp'): 48}
# Answers that a VM gets in a unit of time: HOST_ANSWERS_MAX.
ANSWERS_MAX = 100


class TestTooBig(host_case.HostCase):

    def setUp(self):
        super().setUp()
        self.addCleanup(self.host.set_reply_mtu)
        self.addCleanup(self.host.check_outcomes)
        self.host.set_reply_mtu(MTU)
        for v6, protocol in HEADERS:
            self.arrives('IN', v6, protocol=protocol)

    def answer(self, outcome, v6, protocol='tcp', length=MTU + 1, **header):
        """A packet of the VM's of so many bytes."""
        packet = self.vm_packet(
            v6, protocol, payload=bytes(index % 251 for index in range(
                length - HEADERS[v6, protocol])))
        if not v6:
            header.setdefault('flags', 'DF')
        for name, value in header.items():
            packet.setfieldval(name, value)
        return self.send(outcome, packet)

    def send(self, outcome, packet, padding=b''):
        self.sent = host.from_vm(packet) + padding
        result = self.host.tap_in(self.sent)
        self.assertEqual(outcome, result[2])
        return result[1]

    def check(self, v6, data, mtu=MTU):
        """Check the fields that the VM's kernel evaluates."""
        self.assertEqual(self.sent[6:12] + self.sent[:6], data[:12])
        packet = (inet6.IPv6 if v6 else inet.IP)(data[14:])
        ends = (host.CLIENT6, host.FIXED6) if v6 else (host.CLIENT,
                                                       host.FIXED)
        self.assertEqual(ends, (packet.src, packet.dst))
        icmp = packet.payload
        if v6:
            self.assertEqual((1280, 2, 0, mtu), (
                len(packet), icmp.type, icmp.code, icmp.mtu))
            check, field, quote = icmp.cksum, 'cksum', data[62:]
        else:
            self.assertEqual((548, 3, 4, mtu), (
                packet.len, icmp.type, icmp.code, icmp.nexthopmtu))
            check, field, quote = icmp.chksum, 'chksum', data[42:]
        self.assertEqual(self.sent[14:14 + len(quote)], quote)
        icmp.delfieldval(field)
        again = (inet6.IPv6 if v6 else inet.IP)(bytes(packet))
        self.assertEqual(check, again.payload.getfieldval(field))

    def test_what_fits_leaves_and_one_byte_more_is_told(self):
        for (v6, protocol), mtu in itertools.product(HEADERS, (
                MTU, 1399, 1280)):
            with self.subTest(v6=v6, protocol=protocol, mtu=mtu):
                self.host.set_reply_mtu(mtu)
                self.answer('OUT', v6, protocol, mtu)
                self.check(v6, self.answer(SENT, v6, protocol, mtu + 1), mtu)
                self.check(v6, self.answer(SENT, v6, protocol, 3000), mtu)

    def test_vm_sees_the_packet_that_it_sent(self):
        for v6 in (False, True):
            data = self.answer(SENT, v6)
            quote = inet6.IPv6(data[62:]) if v6 else inet.IP(data[42:])
            self.assertEqual(((host.FIXED, host.FIXED6)[v6],
                              (host.CLIENT, host.CLIENT6)[v6]),
                             (quote.src, quote.dst))
            self.assertEqual((host.LOCAL_PORT, 40000), (
                quote.payload.sport, quote.payload.dport))

    def test_it_goes_to_the_tap_with_our_mark(self):
        frame = host.from_vm(self.vm_packet(True, payload=bytes(MTU)))
        result = self.host.datapath.run(types.Hook.TAP_IN, frame,
                                        self.host.taps[host.PORT])
        self.assertEqual((model.REDIRECT, model.MARK),
                         (result.action, result.mark))
        self.host.outcomes[SENT] += 1

    def test_ipv4_without_df_is_counted(self):
        for flags in (0, 'MF', 'DF+MF'):
            self.answer(DROP, False, flags=flags)
        port, = {port for port, outcome in self.host.datapath.drops()
                 if outcome.name == DROP}
        self.assertEqual(host.PORT, port)

    def test_limits_of_either_version(self):
        for mtu, v4 in ((577, SENT), (576, SENT), (575, DROP)):
            self.host.set_reply_mtu(mtu)
            self.answer(v4, False)
            self.check(True, self.answer(SENT, True), 1280)

    def test_kernel_knows_better_than_the_entry(self):
        """Which has what was read last."""
        environment.set_mtu('lo', MTU + 100)
        self.host.model.reply_mtu = MTU + 100
        self.answer('OUT', False, length=MTU + 100)
        self.answer(SENT, False, length=MTU + 101)
        environment.set_mtu('lo', MTU - 100)
        self.host.set_settings()
        self.host.model.reply_mtu = MTU - 100
        self.answer(SENT, False, length=MTU - 99)
        self.answer('OUT', False, length=MTU - 100)

    def test_fragments(self):
        first = self.answer(SENT, True)
        self.assertEqual(2, inet6.IPv6(first[14:]).payload.type)
        whole = self.vm_packet(True, 'udp', payload=bytes(4000))
        fragments = inet6.fragment6(
            inet6.IPv6(src=whole.src, dst=whole.dst) /
            inet6.IPv6ExtHdrFragment() / whole.payload, 1500)
        self.send(SENT, fragments[0])
        self.send(DROP, fragments[1])
        self.send('OUT', fragments[2])

    def test_errors_are_not_told_of(self):
        for v6 in (False, True):
            quoted = bytes(self.client_packet(v6))
            quoted = (inet6.IPv6 if v6 else inet.IP)(quoted)
            quoted.dst = (host.FIXED, host.FIXED6)[v6]
            quoted.payload.dport = host.LOCAL_PORT
            layer = (inet6.ICMPv6DestUnreach(code=4) if v6
                     else inet.ICMP(type=3, code=3))
            header = {} if v6 else {'flags': 'DF'}
            self.send(DROP, host.ip(
                v6, (host.FIXED, host.FIXED6)[v6],
                (host.CLIENT, host.CLIENT6)[v6], **header) / layer / (
                    bytes(quoted) + bytes(MTU)))

    def test_replies_to_probes(self):
        for v6 in (False, True):
            request = host.echo(v6, (host.NODE, host.NODE6)[v6],
                                (host.VIP, host.VIP6)[v6])
            self.host.nic(host.encapsulated(
                request, host.key(1, 'tcp', v6), inner_v6=v6))
            header = {} if v6 else {'flags': 'DF'}
            self.send(SENT, host.echo(
                v6, (host.FIXED, host.FIXED6)[v6],
                (host.NODE, host.NODE6)[v6], True, payload=bytes(MTU),
                **header))

    def test_padding_leaves_too(self):
        packet = self.vm_packet(False, payload=bytes(MTU - 60))
        packet.flags = 'DF'
        self.send('OUT', packet, bytes(20))
        self.check(False, self.send(SENT, packet, bytes(21)))

    def test_quote_is_no_longer_than_the_packet(self):
        packet = self.vm_packet(False, payload=b'odd')
        packet.flags = 'DF'
        data = self.send(SENT, packet, bytes(MTU))
        self.assertEqual(14 + 28 + 43, len(data))

    def test_headers_of_any_length(self):
        packet = self.vm_packet(False, payload=bytes(MTU))
        packet.flags = 'DF'
        packet.options = [inet.IPOption(b'\x01')] * 40
        self.check(False, self.send(SENT, packet))
        plain = self.vm_packet(True, payload=bytes(MTU))
        self.check(True, self.send(SENT, inet6.IPv6(
            src=plain.src, dst=plain.dst) / inet6.IPv6ExtHdrDestOpt() /
            plain.payload))

    def test_no_transport_in_the_quote(self):
        plain = self.vm_packet(True, payload=bytes(10))
        headers = inet6.IPv6ExtHdrDestOpt(options=[
            inet6.PadN(optdata=bytes(250)) for _ in range(5)])
        self.send(SENT, inet6.IPv6(src=plain.src, dst=plain.dst) / headers /
                  plain.payload, bytes(200))

    def test_udp_without_checksum(self):
        packet = self.vm_packet(False, 'udp', payload=bytes(MTU))
        packet.flags = 'DF'
        packet.payload.chksum = 0
        self.check(False, self.send(SENT, packet))

    def test_nothing_is_said_in_the_name_of_a_group(self):
        self.host.set_rules(host.PORT, (), is_open=True)
        for v6, group in ((False, '239.1.2.3'), (True, 'ff0e::1'),
                          (False, '127.0.0.1'), (True, '::1')):
            packet = self.vm_packet(v6, destination=group,
                                    payload=bytes(MTU))
            if not v6:
                packet.flags = 'DF'
            self.arrives('IN', v6, source=group)
            self.send(DROP, packet)

    def test_flow_goes_on(self):
        for v6 in (False, True):
            self.answer(SENT, v6)
            self.answer('OUT', v6, length=MTU)
            self.arrives('IN', v6)
        self.assertEqual(2, len(self.confirmed()))
        self.host.check_flows()

    def test_without_a_way_out_that_is_why(self):
        self.host.set_settings(0)
        self.answer('DROP_NO_REPLY', False)

    def test_each_vm_is_told_so_much_at_a_time(self):
        """All of one's leave the other's as they are."""
        frame = host.from_vm(self.vm_packet(True, payload=bytes(MTU)))
        self.arrives('IN', True, number=2)
        sent = 0
        while self.run_at(host.PORT, frame) == model.REDIRECT:
            sent += 1
            self.assertLess(sent, 1000 * ANSWERS_MAX)
        self.assertGreaterEqual(sent, ANSWERS_MAX)
        self.assertEqual(model.REDIRECT, self.run_at(host.OTHER_PORT, frame))
        self.host.outcomes.update({SENT: sent + 1, DROP: 1})

    def run_at(self, port, frame):
        return self.host.datapath.run(types.Hook.TAP_IN, frame,
                                      self.host.taps[port]).action
