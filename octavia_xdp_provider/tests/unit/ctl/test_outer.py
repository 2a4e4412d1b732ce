# SPDX-License-Identifier: Apache-2.0

from scapy.contrib import geneve
from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from octavia_xdp_provider.ctl import outer
from octavia_xdp_provider.node.types import Encapsulation
from octavia_xdp_provider.tests.unit import base


class TestOuter(base.TestCase):

    def test_each_outer_header_is_recognised(self):
        inner = (inet.IP(src='198.51.100.7', dst='203.0.113.10')
                 / inet.TCP())
        link = l2.Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02')
        v4 = inet.IP(src='10.0.0.1', dst='10.1.0.1')
        v6 = inet6.IPv6(src='fd00::1', dst='fd00::2')
        outers = (
            (Encapsulation.IPIP, v4, '10.0.0.1'),
            (Encapsulation.IPIP, v6, 'fd00::1'),
            (Encapsulation.SRV6, v6, 'fd00::1'),
            (Encapsulation.GRE, v4 / l2.GRE(), '10.0.0.1'),
            (Encapsulation.GUE, v6 / inet.UDP(dport=6080), 'fd00::1'),
            (Encapsulation.GENEVE, v6 / inet.UDP(dport=6081) / geneve.GENEVE(
                proto=0x0800, vni=77), 'fd00::1'))
        self.assertEqual(set(Encapsulation) - {Encapsulation.DSCP},
                         {encapsulation for encapsulation, *_ in outers})
        for encapsulation, head, source in outers:
            seen = outer.decode(bytes(link / head / inner), encapsulation)
            self.assertEqual(encapsulation, seen.encapsulation)
            self.assertEqual(source, seen.source)
            self.assertEqual(len(inner), seen.carried)
            self.assertEqual('02:00:00:00:00:02', seen.destination_mac)

    def test_key_of_geneve_is_shown(self):
        frame = bytes(
            l2.Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02')
            / inet.IP(src='10.0.0.1', dst='10.1.0.1') / inet.UDP(dport=6081)
            / geneve.GENEVE(proto=0x0800, vni=0xabcdef) / inet.IP()
            / inet.TCP())
        seen = outer.decode(frame, Encapsulation.GENEVE)
        self.assertEqual(0xabcdef, seen.vni)
        self.assertIn('GENEVE 10.0.0.1 -> 10.1.0.1, VNI 11259375',
                      seen.text())

    def test_another_outer_header_is_none_of_the_service(self):
        frame = bytes(l2.Ether(dst='02:00:00:00:00:02')
                      / inet.IP(dst='10.1.0.1') / inet.IP() / inet.TCP())
        self.assertIsNone(outer.decode(
            frame, Encapsulation.GRE).encapsulation)

    def test_rewritten_packet_carries_all_of_itself(self):
        packet = inet.IP(dst='10.1.0.1', tos=46 << 2) / inet.TCP()
        seen = outer.decode(
            bytes(l2.Ether(dst='02:00:00:00:00:02') / packet),
            Encapsulation.DSCP)
        self.assertEqual((46, len(packet)), (seen.dscp, seen.carried))
