# SPDX-License-Identifier: Apache-2.0
"""Packets that name a second member, on a hypervisor, byte by byte."""

import ipaddress
import itertools

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.packets.support import host
from octavia_xdp_provider.tests.packets.support import host_case

SYN, SYN_ACK, ACK, FIN_ACK, RST = 'S', 'SA', 'A', 'FA', 'R'
# By outer headers: what differs in them, where the alternative is here, on
# another hypervisor, and in no known network.
OUTERS = (
    ({}, host.LOCAL, host.PEER, host.FOREIGN),
    ({'v6': True}, host.LOCAL6, host.PEER6, host.FOREIGN6),
    ({'v6': True, 'geneve': False}, host.SID, host.PEER_SID,
     '2001:db8:77::'))
KEY = 77


class TestSecondChance(host_case.HostCase):
    """Key 1 is the member's; its second listener has key 2, on another
    port."""

    def named(self, outer, address, key=KEY, **more):
        return {**outer, **more, 'alternative': (address, key)}

    def begin(self, v6, number=1, port_id=host.PORT, sport=40000):
        self.arrives('IN', v6, number=number, flags=SYN, sport=sport)
        self.answers('OUT', v6, flags=SYN_ACK, port_id=port_id, dport=sport)
        self.arrives('IN', v6, number=number, sport=sport)

    def each(self):
        for v6, outer in itertools.product((False, True), OUTERS):
            with self.subTest(v6=v6, outer=outer[0]):
                yield v6, *outer

    def tearDown(self):
        self.host.check_outcomes()
        self.host.check_flows()
        super().tearDown()

    def test_unknown_connection_is_handed_on(self):
        """The packet is what an LB node would send, from the hypervisor."""
        for v6, outer, _, peer, _ in self.each():
            data = self.arrives('HANDED_ON', v6,
                                outer=self.named(outer, peer))
            inner = bytes(self.client_packet(v6))
            self.assertEqual(inner, data[-len(inner):])
            if not outer.get('v6'):
                sent = inet.IP(data[14:])
                self.assertEqual((host.LOCAL, host.PEER, 64, len(data) - 14),
                                 (sent.src, sent.dst, sent.ttl, sent.len))
                whole = inet.IP(data[14:])
                del whole.chksum
                self.assertEqual(inet.IP(bytes(whole)).chksum, sent.chksum)
                shim = data[34:]
            else:
                sent = inet6.IPv6(data[14:])
                geneve = outer.get('geneve', True)
                source = host.LOCAL6 if geneve else str(
                    ipaddress.IPv6Address(host.SID) +
                    host.key(1, 'tcp', v6))
                target = peer if geneve else str(
                    ipaddress.IPv6Address(peer) + KEY)
                self.assertEqual((source, target, 64, len(data) - 54),
                                 (sent.src, sent.dst, sent.hlim, sent.plen))
                self.assertEqual(17 if geneve else 41 if v6 else 4, sent.nh)
                shim = data[54:]
                if not geneve:
                    self.assertEqual(inner, shim)
                    continue
            self.assertEqual(
                (6081).to_bytes(2, 'big') + (len(inner) + 16).to_bytes(
                    2, 'big') + bytes(4) + (b'\x86\xdd' if v6 else b'\x08\x00')
                + KEY.to_bytes(3, 'big') + b'\0' + inner, shim[2:])

    def test_known_connection_is_taken(self):
        for v6, outer, _, peer, _ in self.each():
            self.begin(v6)
            for flags in (ACK, FIN_ACK, RST):
                data = self.arrives('IN', v6, flags=flags,
                                    outer=self.named(outer, peer))
                self.assertEqual(host.VM, data[:6].hex(':'))

    def test_what_opens_a_connection_is_taken(self):
        for v6, outer, _, peer, _ in self.each():
            self.arrives('IN', v6, flags=SYN, outer=self.named(outer, peer))

    def test_connection_of_another_member_here_goes_to_that(self):
        for v6, outer, local, _, _ in self.each():
            self.begin(v6, number=2, port_id=host.OTHER_PORT)
            data = self.arrives('IN', v6, outer=self.named(
                outer, local, host.key(2, 'tcp', v6)))
            self.assertEqual(host.OTHER_VM, data[:6].hex(':'))

    def test_nobody_else_could_be_asked(self):
        """They make state, like packets without a second member."""
        for number, (v6, outer, local, _, foreign) in enumerate(self.each()):
            for where, key in ((local, host.key(2, 'tcp', v6)), (local, KEY),
                               (foreign, KEY)):
                data = self.arrives('IN', v6, sport=1000 + number,
                                    outer=self.named(outer, where, key))
                self.assertEqual(host.VM, data[:6].hex(':'))

    def test_errors_follow_the_connection_that_they_quote(self):
        for number, (v6, outer, _, peer, _) in enumerate(self.each()):
            sport = 2000 + number
            client = (host.CLIENT, host.CLIENT6)[v6]
            vip = (host.VIP, host.VIP6)[v6]
            quote = bytes(host.ip(v6, vip, client) / inet.TCP(
                sport=host.LISTENER, dport=sport))
            error = host.ip(v6, '2001:db8:9::9' if v6 else '192.0.2.99',
                            vip) / (
                inet6.ICMPv6PacketTooBig(mtu=1300) / quote if v6 else
                inet.ICMP(type=3, code=4) / quote)
            frame = host.encapsulated(
                error, host.key(1, 'tcp', v6), inner_v6=v6,
                **self.named(outer, peer))
            self.assertEqual('HANDED_ON', self.host.nic(frame)[2])
            self.begin(v6, sport=sport)
            self.assertEqual('IN', self.host.nic(frame)[2])

    def test_fragments_stay_together(self):
        for _, outer, _, peer, _ in self.each():
            inner = self.client_packet(False)
            inner.flags = 'MF'
            self.assertEqual('IN', self.host.nic(host.encapsulated(
                inner, host.key(1, 'tcp', False), inner_v6=False,
                **self.named(outer, peer)))[2])

    def test_only_known_connections_are_taken_from_hypervisors(self):
        """A stolen one opens nothing, and nothing is handed on twice."""
        for number, (v6, outer, local, peer, _) in enumerate(self.each()):
            sport = 3000 + number
            stolen = {**outer,
                      'source': (host.PEER, host.PEER6)[outer.get('v6', 0)]}
            for flags in (SYN, ACK, SYN_ACK):
                self.arrives('DROP_UNKNOWN', v6, flags=flags, sport=sport,
                             outer=stolen)
            self.arrives('DROP_UNKNOWN', v6, protocol='udp', sport=sport,
                         outer=stolen)
            self.begin(v6, sport=sport)
            data = self.arrives('IN', v6, sport=sport, outer=stolen)
            self.assertEqual(host.VM, data[:6].hex(':'))
            self.arrives('DROP_UNKNOWN', v6, flags=SYN, sport=sport,
                         outer=stolen)
            for where in (peer, local):
                self.arrives('DROP_SOURCE', v6, sport=sport,
                             outer=self.named(stolen, where))
            self.arrives('DROP_KEY', v6, number=9, outer=stolen)

    def test_rules_are_judged_for_handed_on_packets_too(self):
        for v6, outer, _, _, _ in self.each():
            self.begin(v6)
            self.host.set_rules(host.PORT, ())
            self.arrives('DROP_NOT_ALLOWED', v6, outer={
                **outer, 'source': (host.PEER, host.PEER6)[
                    outer.get('v6', 0)]})
            self.host.set_rules(host.PORT, host.RULES)

    def test_no_packet_is_for_others(self):
        """Without networks of hypervisors nothing goes to them, nor comes."""
        self.host.datapath.set_peers(())
        self.host.model.peers = ()
        for v6, outer, _, peer, _ in self.each():
            self.arrives('DROP_SOURCE', v6, outer={
                **outer, 'source': (host.PEER, host.PEER6)[
                    outer.get('v6', 0)]})
            self.arrives('IN', v6, outer=self.named(outer, peer))
        self.assertEqual(set(), self.host.datapath.peers())
        self.host.datapath.set_peers(host.PEERS)
        self.assertEqual(set(host.PEERS), self.host.datapath.peers())
