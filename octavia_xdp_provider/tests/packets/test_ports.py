# SPDX-License-Identifier: Apache-2.0
"""Members whose port the node writes into packets."""

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support.cases import Encapsulation
from octavia_xdp_provider.tests.packets.support.cases import Outcome
from octavia_xdp_provider.tests.packets.support.cases import outer4
from octavia_xdp_provider.tests.packets.support.cases import outer6

FAMILIES = {4: (cases.VIP4, cases.ip4, cases.MEMBER4, outer4),
            6: (cases.VIP6, cases.ip6, cases.MEMBER6, outer6)}
TRANSPORT = {state.TCP: (inet.TCP, cases.tcp),
             state.UDP: (inet.UDP, cases.udp)}
LOCAL = 8080


def rebuilt(packet):
    """Return the packet with lengths and checksums filled in."""
    return packet.__class__(bytes(packet))


def member(address, port=LOCAL):
    return state.Member(compared.packed(address), port=port)


class TestPorts(cases.PacketCase):

    def inner_of(self, frame, family):
        """The packet inside of IPIP."""
        start = 14 + (20 if family == 4 else 40)
        return (inet.IP if frame[start] >> 4 == 4 else inet6.IPv6)(
            frame[start:])

    def test_the_members_port_takes_the_place_of_the_listeners(self):
        """With the checksum that a packet to that port has."""
        for vip, make, _, _ in FAMILIES.values():
            for protocol, (layer, transport) in TRANSPORT.items():
                for to, family in ((cases.MEMBER4, 4), (cases.MEMBER6, 6)):
                    service = self.service(vip, protocol, [member(to)])
                    for length in (0, 1, 33, 1000):
                        inner = make() / transport() / cases.payload(length)
                        result = self.forwarded(cases.link() / inner)
                        inner[layer].dport = LOCAL
                        self.assertEqual(
                            bytes(rebuilt(inner)).hex(),
                            bytes(self.inner_of(result.frame,
                                                family)).hex())
                    self.compared.delete_service(service)

    def test_every_encapsulation_carries_it(self):
        for encapsulation in Encapsulation:
            for family, (vip, make, to, _) in FAMILIES.items():
                if encapsulation == Encapsulation.SRV6:
                    to = cases.MEMBER6
                for protocol, (layer, transport) in TRANSPORT.items():
                    with self.subTest(encapsulation.name, family=family):
                        service = self.service(
                            vip, protocol, [member(to)],
                            encapsulation=encapsulation,
                            dscp=(11 if encapsulation == Encapsulation.DSCP
                                  else 0))
                        inner = make() / transport() / cases.payload(32)
                        result = self.forwarded(cases.link() / inner)
                        inner[layer].dport = LOCAL
                        transport_of = bytes(rebuilt(inner)[layer])
                        # DSCP's checksum is of another address as well
                        at = (len(transport_of) if encapsulation !=
                              Encapsulation.DSCP else 32)
                        self.assertEqual(transport_of[-at:],
                                         result.frame[-at:])
                        self.assertEqual(
                            LOCAL.to_bytes(2, 'big'),
                            result.frame[-len(transport_of):][2:4])
                        self.compared.delete_service(service)

    def test_udp_without_a_checksum_stays_without(self):
        self.service(protocol=state.UDP, members=[member(cases.MEMBER4)])
        inner = cases.ip4() / cases.udp(chksum=0) / cases.payload(9)
        result = self.forwarded(cases.link() / inner)
        datagram = self.inner_of(result.frame, 4)[inet.UDP]
        self.assertEqual((LOCAL, 0), (datagram.dport, datagram.chksum))

    def test_a_udp_checksum_never_becomes_none(self):
        """A checksum of 0 is sent as 0xffff (RFC 768)."""
        self.service(protocol=state.UDP, members=[member(cases.MEMBER4)])
        inner = rebuilt(cases.ip4() / cases.udp() / b'\0\0')
        wanted = rebuilt(cases.ip4() / cases.udp(dport=LOCAL) / b'\0\0')
        # A word of the payload that makes up for all others.
        word = wanted[inet.UDP].chksum
        inner = rebuilt(cases.ip4() / cases.udp() / word.to_bytes(2, 'big'))
        result = self.forwarded(cases.link() / inner)
        self.assertEqual(
            0xffff, self.inner_of(result.frame, 4)[inet.UDP].chksum)

    def test_the_first_fragment_has_the_port_and_later_ones_none(self):
        self.service(protocol=state.UDP, members=[member(cases.MEMBER4)])
        data = cases.payload(64)
        first = rebuilt(cases.ip4(flags='MF') / cases.udp(len=200) / data)
        later = rebuilt(cases.ip4(frag=9, proto=17) / data)
        result = self.forwarded(cases.link() / first)
        inner_packet = self.inner_of(result.frame, 4)
        self.assertEqual(LOCAL, inner_packet[inet.UDP].dport)
        self.forwarded(cases.link() / later, outer4(later) / later)

    def test_errors_quote_the_members_port(self):
        """Which is what the member sent, before its own program."""
        for family, (vip, make, to, _) in FAMILIES.items():
            for protocol, (layer, _) in TRANSPORT.items():
                service = self.service(vip, protocol, [member(to)])
                quoted = (inet.IP(src=vip, dst=cases.CLIENT4) if family == 4
                          else inet6.IPv6(src=vip, dst=cases.CLIENT6))
                quoted /= layer(sport=cases.PORT, dport=40000)
                error = (inet.ICMP(type=3, code=4, nexthopmtu=1300)
                         if family == 4 else
                         inet6.ICMPv6PacketTooBig(mtu=1300))
                packet = rebuilt(make(src=quoted.src.replace(
                    '192.0.2.1', '198.51.100.99').replace(
                    '2001:db8::1', '2001:db8:c::99')) / error / bytes(quoted))
                result = self.forwarded(cases.link() / packet)
                wanted = bytearray(bytes(quoted))
                at = 20 if family == 4 else 40
                wanted[at:at + 2] = LOCAL.to_bytes(2, 'big')
                expected = packet.copy()
                kind = inet.ICMP if family == 4 else inet6.ICMPv6PacketTooBig
                expected[kind].remove_payload()
                expected = expected / bytes(wanted)
                for name in ('chksum', 'cksum'):
                    if name in expected[kind].fields:
                        expected[kind].delfieldval(name)
                self.assertEqual(
                    bytes(rebuilt(expected)).hex(),
                    bytes(self.inner_of(result.frame, family)).hex())
                self.compared.delete_service(service)

    def test_what_is_sent_back_to_the_client_quotes_the_listeners_port(self):
        self.use(cases.plain_node(icmp_rate=1000))
        self.service(members=[member(cases.MEMBER4)])
        packet = cases.ip4(flags='DF') / cases.tcp() / cases.payload(1450)
        result = self.check(cases.link() / packet, cases.Action.TX,
                            Outcome.SENT_TOO_BIG)
        answer = inet.IP(result.frame[14:])
        self.assertEqual(cases.PORT, answer[inet.TCPerror].dport)

    def test_ports_are_refused_with_sctp(self):
        with self.assertRaisesRegex(OSError, 'SCTP'):
            self.service(protocol=state.SCTP,
                         members=[member(cases.MEMBER4)])
