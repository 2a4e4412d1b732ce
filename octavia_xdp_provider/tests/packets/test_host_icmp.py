# SPDX-License-Identifier: Apache-2.0
"""ICMP through a hypervisor, each packet compared with the model."""

import itertools

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.models.host_model import model
from octavia_xdp_provider.tests.packets.support import host
from octavia_xdp_provider.tests.packets.support import host_case


class TestErrors(host_case.HostCase):

    def error(self, v6, source, destination, quoted):
        if v6:
            return host.ip(True, source, destination) / (
                inet6.ICMPv6DestUnreach(code=4) / bytes(quoted)[:80])
        return host.ip(False, source, destination) / (
            inet.ICMP(type=3, code=4, nexthopmtu=1300) / bytes(quoted)[:60])

    def test_errors_follow_the_flow_that_they_quote(self):
        for v6, protocol in itertools.product((False, True), host.PROTOCOLS):
            router = ('198.51.100.254', '2001:db8:c::fe')[v6]
            vip = (host.VIP, host.VIP6)[v6]
            fixed = (host.FIXED, host.FIXED6)[v6]
            key = host.key(1, protocol, v6)
            answer = self.vm_packet(v6, protocol)
            answer.src, answer.payload.sport = vip, host.LISTENER
            frame = host.encapsulated(
                self.error(v6, router, vip, answer), key, inner_v6=v6)
            self.assertEqual('DROP_ICMP', self.host.nic(frame)[2])
            self.arrives('IN', v6, protocol=protocol)
            self.assertEqual('IN', self.host.nic(frame)[2])
            request = self.client_packet(v6, protocol)
            request.dst, request.payload.dport = fixed, host.LOCAL_PORT
            client = (host.CLIENT, host.CLIENT6)[v6]
            frame = host.from_vm(self.error(v6, fixed, client, request))
            self.assertEqual('OUT', self.host.tap_in(frame)[2])
            request.payload.sport = 3
            frame = host.from_vm(self.error(v6, fixed, client, request))
            self.assertEqual('PASS', self.host.tap_in(frame)[2])
        self.host.check_outcomes()


class TestEchoes(host_case.HostCase):
    """PING, by which LB nodes probe members."""

    def ask(self, outcome, v6, number=1, vip=None, source=None, **more):
        request = host.echo(
            v6, source or (host.NODE, host.NODE6)[v6],
            vip or (host.VIP, host.VIP6)[v6], **more)
        result = self.host.nic(host.encapsulated(
            request, host.key(number, 'tcp', v6), inner_v6=v6))
        self.assertEqual(outcome, result[2])
        return result[1]

    def answer(self, outcome, v6, port_id=host.PORT, **more):
        result = self.host.tap_in(host.from_vm(host.echo(
            v6, (host.FIXED, host.FIXED6)[v6],
            (host.NODE, host.NODE6)[v6], reply=True, **more)), port_id)
        self.assertEqual(outcome, result[2])
        return result[1]

    def test_lb_nodes_requests_reach_the_vm_whatever_its_rules(self):
        for v6 in (False, True):
            self.host.set_rules(host.PORT, ())
            layer = inet6.IPv6 if v6 else inet.IP
            data = self.ask('IN', v6)
            self.assertEqual(host.VM, data[:6].hex(':'))
            wanted = host.echo(v6, (host.NODE, host.NODE6)[v6],
                               (host.FIXED, host.FIXED6)[v6])
            self.assertEqual(bytes(wanted), data[14:])
            data = self.answer('OUT', v6)
            wanted = host.echo(v6, (host.VIP, host.VIP6)[v6],
                               (host.NODE, host.NODE6)[v6], reply=True)
            self.assertEqual(bytes(wanted), data[14:])
            self.assertEqual((host.VIP, host.VIP6)[v6],
                             layer(data[14:]).src)
            self.answer('PASS', v6)
        self.host.check_flows()
        self.host.check_outcomes()

    def test_reply_is_of_the_vip_that_was_asked(self):
        for v6 in (False, True):
            vips = ((host.VIP, host.OTHER_VIP),
                    (host.VIP6, host.OTHER_VIP6))[v6]
            for number, vip, sequence in ((3, vips[0], 1), (4, vips[1], 2)):
                self.ask('IN', v6, number, vip, sequence=sequence)
            for vip, sequence in ((vips[1], 2), (vips[0], 1)):
                data = self.answer('OUT', v6, sequence=sequence)
                layer = inet6.IPv6 if v6 else inet.IP
                self.assertEqual(vip, layer(data[14:]).src)
        self.host.check_flows()

    def test_others_requests_and_replies_are_left_or_refused(self):
        for v6 in (False, True):
            self.ask('DROP_MISMATCH', v6,
                     source=(host.CLIENT, host.CLIENT6)[v6])
            self.ask('DROP_MISMATCH', v6,
                     vip=(host.OTHER_VIP, host.OTHER_VIP6)[v6])
            self.ask('DROP_MISMATCH', v6, reply=True)
            self.answer('PASS', v6)
            self.ask('IN', v6)
            self.answer('PASS', v6, identifier=8)
            self.answer('PASS', v6, sequence=2)
            self.answer('PASS', v6, host.OTHER_PORT)
            self.answer('OUT', v6)
        self.ask('DROP_MISMATCH', False, flags='MF')
        self.host.check_flows()
        self.host.check_outcomes()

    def test_request_is_forgotten_with_its_entry(self):
        self.ask('IN', False)
        self.assertTrue(self.host.datapath.delete_entry(
            host.key(1, 'tcp', False)))
        self.assertEqual([], self.host.datapath.flows(types.Table.HALF_OPEN))
        self.assertEqual(model.LEFT_ALONE, self.host.datapath.run(
            types.Hook.TAP_IN, host.from_vm(host.echo(
                False, host.FIXED, host.NODE, reply=True)),
            self.host.taps[host.PORT]).action)
