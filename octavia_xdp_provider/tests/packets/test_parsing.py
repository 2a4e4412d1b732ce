# SPDX-License-Identifier: Apache-2.0
"""Which packets are for a service, and which are malformed."""

import itertools

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.layers import sctp
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support.cases import Outcome

ROUTER_ALERT = inet.IPOption(b'\x94\x04\0\0')


def hop():
    return inet6.IPv6ExtHdrHopByHop(
        options=[inet6.RouterAlert(), inet6.PadN(optdata=b'')])


def destination(length: int = 1):
    return inet6.IPv6ExtHdrDestOpt(
        options=[inet6.PadN(optdata=bytes(8 * length - 4))])


def routing(left: int = 0):
    return inet6.IPv6ExtHdrRouting(addresses=['2001:db8::5'], segleft=left)


def atomic():
    return inet6.IPv6ExtHdrFragment(offset=0, m=0, id=7)


class Parsing(cases.PacketCase):

    def setUp(self):
        super().setUp()
        for vip in (cases.VIP4, cases.VIP6):
            for protocol in (state.TCP, state.UDP, state.SCTP):
                self.service(vip, protocol)


class TestNotOurs(Parsing):
    """Packets to other addresses pass unchanged, malformed or not."""

    def others(self):
        four, six = cases.OTHER4, cases.OTHER6
        yield cases.ip4(dst=four) / cases.tcp()
        yield cases.ip6(dst=six) / cases.tcp()
        yield cases.ip4(dst=four, options=[ROUTER_ALERT]) / cases.tcp()
        yield cases.ip4(dst=four, flags='MF') / cases.udp()
        yield cases.ip4(dst=four, frag=100) / cases.payload(64)
        yield cases.ip6(dst=six) / inet6.IPv6ExtHdrFragment(
            m=1, nh=17) / cases.udp()
        yield cases.ip6(dst=six) / inet6.IPv6ExtHdrFragment(
            offset=9, nh=17) / cases.payload(64)
        yield cases.ip6(dst=six) / destination() / cases.tcp()
        yield cases.ip6(dst=six) / routing(1) / cases.tcp()
        yield cases.ip4(dst=four, src='127.0.0.1') / cases.tcp()
        yield cases.ip4(dst=four) / cases.ip4() / cases.tcp()
        yield cases.ip4(dst=four) / l2.GRE() / cases.ip4() / cases.tcp()
        yield (cases.ip4(dst=four) / cases.udp(dport=6080) / cases.ip4() /
               cases.tcp())
        yield cases.ip4(dst=four) / inet.ICMP()
        yield cases.ip6(dst=six) / inet6.ICMPv6EchoRequest()
        yield (cases.ip4(dst=four) / inet.ICMP(type=3, code=4) /
               cases.ip4(src=four) / cases.tcp())
        yield cases.ip4(dst=four, len=10) / cases.tcp()
        yield cases.ip4(dst=four, len=2000) / cases.tcp()
        yield cases.ip4(dst=four, ihl=4) / cases.tcp()
        yield cases.ip6(dst=six, plen=0) / cases.tcp()
        yield cases.ip6(dst=six, plen=999) / cases.tcp()
        yield cases.ip4(dst=four) / Raw(b'\0' * 3)
        yield cases.ip4(dst=four) / cases.sctp_init()

    def test_packets_to_other_hosts_pass_untouched(self):
        self.use(self.node)
        self.node.echo, self.node.icmp_rate = True, 100
        self.compared.set_node()
        for vip in (cases.VIP4, cases.VIP6):
            self.service(vip)
        for packet in self.others():
            self.passed(cases.link() / packet)
            self.passed(cases.link(9) / packet)

    def test_addresses_next_to_the_vip_pass(self):
        for packet in (cases.ip4(dst='192.0.2.0') / cases.tcp(),
                       cases.ip4(dst='193.0.2.1') / cases.tcp(),
                       cases.ip6(dst='2001:db8::2') / cases.tcp(),
                       cases.ip6(dst='2001:db9::1') / cases.tcp(),
                       cases.ip6(dst='::ffff:192.0.2.1') / cases.tcp()):
            self.passed(cases.link() / packet)

    def test_other_ports_and_protocols_of_the_vip_pass(self):
        for make in (cases.ip4, cases.ip6):
            for transport in (cases.tcp(dport=81), cases.udp(dport=81),
                              cases.tcp(dport=0),
                              sctp.SCTP(sport=1, dport=81)):
                self.passed(cases.link() / make() / transport)
        self.passed(cases.link() / cases.ip4(proto=50) / cases.payload(20))
        self.passed(cases.link() / cases.ip4(proto=51) / cases.payload(20))
        self.passed(cases.link() / cases.ip4(proto=255) / cases.payload(20))
        for header in (50, 51, 59, 135, 255):
            self.passed(cases.link() / cases.ip6(nh=header) /
                        cases.payload(24))

    def test_broadcast_and_multicast_frames_pass(self):
        for group in ('ff:ff:ff:ff:ff:ff', '01:00:5e:00:00:01',
                      '33:33:00:00:00:01', '03:00:00:00:00:01'):
            for make in (cases.ip4, cases.ip6):
                for link in (cases.link(), cases.link(3, 4)):
                    link[l2.Ether].dst = group
                    self.passed(link / make() / cases.tcp())

    def test_frames_that_are_not_ip_pass(self):
        self.passed(cases.link() / l2.ARP(pdst=cases.VIP4))
        for ethertype, first in ((0x88cc, 0x45), (0x0800, 0x65),
                                 (0x86dd, 0x45)):
            self.passed(l2.Ether(dst=cases.NODE_MAC, src=cases.ROUTER_MAC,
                                 type=ethertype) /
                        Raw(bytes((first,)) + bytes(60)))

    def test_frames_too_short_for_an_address_pass(self):
        whole = bytes(cases.link() / cases.ip4() / cases.tcp())
        for length in range(14, 34):
            self.passed(Raw(whole[:length]))
        whole = bytes(cases.link(3) / cases.ip6() / cases.tcp())
        for length in range(14, 58):
            self.passed(Raw(whole[:length]))

    def test_neighbour_discovery_of_the_vip_passes(self):
        self.use(cases.plain_node(echo=True, icmp_rate=100))
        self.service(cases.VIP6)
        for message in (inet6.ICMPv6ND_NS(tgt=cases.VIP6),
                        inet6.ICMPv6ND_NA(tgt=cases.VIP6),
                        inet6.ICMPv6ND_RA(), inet6.ICMPv6EchoReply()):
            self.passed(cases.link() / cases.ip6() / message)


class TestMalformed(Parsing):

    def malformed(self, packet):
        self.dropped(packet, Outcome.DROP_MALFORMED)

    def test_frames_shorter_than_their_packet_are_dropped(self):
        """A frame that ends before its packet does."""
        for vlans in ((), (1,), (1, 2)):
            for make, header in ((cases.ip4, 20), (cases.ip6, 40)):
                for transport in (cases.tcp(), cases.udp() / Raw(b'x' * 9),
                                  cases.sctp_init()):
                    whole = bytes(cases.link(*vlans) / make() / transport)
                    start = 14 + 4 * len(vlans) + header
                    for length in range(start, len(whole)):
                        self.malformed(Raw(whole[:length]))

    def test_wrong_lengths_of_ipv4_are_dropped(self):
        for fields in ({'ihl': 4}, {'ihl': 0}, {'len': 0}, {'len': 19},
                       {'len': 41}, {'len': 0xffff}, {'ihl': 15},
                       {'ihl': 6, 'len': 23}):
            self.malformed(cases.link() / cases.ip4(**fields) / cases.tcp())

    def test_wrong_lengths_of_ipv6_are_dropped(self):
        for length in (0, 21, 0xffff):
            self.malformed(cases.link() / cases.ip6(plen=length) /
                           cases.tcp())

    def test_packets_shorter_than_their_transport_header_are_dropped(self):
        """By the packet's own length: what follows is padding."""
        for protocol, size in ((6, 20), (17, 8), (132, 12)):
            for length in range(size):
                self.malformed(
                    cases.link() / cases.ip4(proto=protocol,
                                             len=20 + length) /
                    cases.payload(40))
                if length:
                    self.malformed(
                        cases.link() / cases.ip6(nh=protocol, plen=length) /
                        cases.payload(40))

    def test_first_fragments_without_tcp_flags_are_dropped(self):
        """RFC 1858: the flags of TCP hide in the second one."""
        self.malformed(cases.link() / cases.ip4(proto=6, flags='MF') /
                       cases.payload(8))
        self.malformed(cases.link() / cases.ip6() /
                       inet6.IPv6ExtHdrFragment(nh=6, m=1) /
                       cases.payload(16))

    def test_packets_shorter_than_their_extension_headers_are_dropped(self):
        packet = bytes(cases.link() / cases.ip6() / destination(3) /
                       cases.tcp())
        for length in range(1, 24):
            cut = bytearray(packet)
            cut[18:20] = length.to_bytes(2, 'big')
            self.malformed(Raw(bytes(cut)))
        long = bytearray(packet)
        long[55] = 200  # longer than the packet
        self.malformed(Raw(bytes(long)))

    def test_packets_of_seven_extension_headers_are_dropped(self):
        for count in range(1, 9):
            packet = cases.ip6()
            for _ in range(count):
                packet /= destination()
            packet = cases.link() / packet / cases.tcp()
            if count <= 6:
                self.forwarded(packet)
            else:
                self.malformed(packet)

    def test_packets_with_routing_segments_left_are_dropped(self):
        self.malformed(cases.link() / cases.ip6() / routing(1) / cases.tcp())

    def test_icmp_shorter_than_its_header_is_dropped(self):
        self.malformed(cases.link() / cases.ip4(proto=1) / cases.payload(7))
        self.malformed(cases.link() / cases.ip6(nh=58) / cases.payload(7))


class TestOptions(Parsing):

    def check_inner(self, inner):
        inner = inner.__class__(bytes(inner))
        make = cases.outer4 if inner.version == 4 else cases.outer6
        result = self.forwarded(cases.link() / inner)
        self.assertEqual(bytes(inner).hex(),
                         result.frame[len(make(inner)):].hex())

    def test_ipv4_options_are_forwarded_unchanged(self):
        for words in range(1, 11):
            self.check_inner(
                cases.ip4(options=[inet.IPOption(b'\x01' * 4 * words)]) /
                cases.tcp())

    def test_extension_headers_are_forwarded_unchanged(self):
        for headers in ((hop(),), (routing(),), (destination(),), (atomic(),),
                        (hop(), destination(), routing(), atomic(),
                         destination(2)), (destination(32),)):
            for transport in (cases.tcp(), cases.udp(), cases.sctp_init()):
                inner = cases.ip6()
                for header in headers:
                    inner /= header
                self.check_inner(inner / transport)


class TestMartians(Parsing):

    FOUR = ('0.0.0.0', '0.1.2.3', '127.0.0.1', '127.255.255.255',
            '224.0.0.1', '239.1.1.1', '240.0.0.1', '255.255.255.255',
            cases.VIP4)
    SIX = ('::', '::1', 'ff02::1', 'ff0e::1', '::ffff:10.0.0.1', cases.VIP6)

    def test_martian_sources_are_dropped(self):
        for make, sources in ((cases.ip4, self.FOUR), (cases.ip6, self.SIX)):
            for source in sources:
                for transport in (cases.tcp(flags='S'), cases.tcp(),
                                  cases.udp(), cases.sctp_init()):
                    self.dropped(cases.link() / make(src=source) / transport,
                                 Outcome.DROP_MARTIAN)

    def test_sources_next_to_martians_are_forwarded(self):
        for source in ('1.0.0.0', '126.255.255.255', '128.0.0.0',
                       '223.255.255.255', '192.0.2.2'):
            self.forwarded(cases.link() / cases.ip4(src=source) /
                           cases.tcp())
        for source in ('::2', 'feff::1', '::fffe:10.0.0.1', '2001:db8::2'):
            self.forwarded(cases.link() / cases.ip6(src=source) /
                           cases.tcp())

    def test_what_the_node_sends_from_is_no_client(self):
        """Hypervisors let it in past all rules: the probes of nodes."""
        self.node.entropy = {state.IPV4: 4, state.IPV6: 8}
        self.compared.set_node()
        for make, own, others in (
                (cases.ip4, ('10.0.0.0', '10.0.0.1', '10.0.0.15'),
                 ('10.0.0.16', '9.255.255.255')),
                (cases.ip6, ('fd00::', 'fd00::1', 'fd00::ff'),
                 ('fd00::100', 'fd00::1:0:1', 'fd00:0:0:1::1'))):
            for transport in (cases.tcp(flags='S'), cases.tcp(), cases.udp(),
                              cases.sctp_init()):
                for source in own:
                    self.dropped(cases.link() / make(src=source) / transport,
                                 Outcome.DROP_MARTIAN)
                for source in others:
                    self.forwarded(cases.link() / make(src=source) /
                                   transport)

    def test_martians_to_ports_without_service_pass(self):
        for make, sources in ((cases.ip4, self.FOUR), (cases.ip6, self.SIX)):
            for source in sources:
                self.passed(cases.link() / make(src=source) /
                            cases.tcp(dport=81))


class TestTunnels(Parsing):
    """Somebody else's outer header: not unwrapped, not forwarded."""

    def test_tunnelled_packets_to_a_vip_are_dropped(self):
        inner = cases.ip4(src='203.0.113.1', dst='203.0.113.2') / cases.tcp()
        inner6 = cases.ip6(src='2001:db8::a', dst='2001:db8::b') / cases.tcp()
        for make in (cases.ip4, cases.ip6):
            for packet in (make() / inner, make() / inner6,
                           make() / l2.GRE() / inner,
                           make() / l2.GRE() / inner6,
                           make() / cases.udp(dport=6080) / inner,
                           make() / cases.udp(dport=6080) / inner6):
                self.dropped(cases.link() / packet, Outcome.DROP_TUNNEL)

    def test_what_nodes_send_to_members_is_dropped_at_a_vip(self):
        """In whichever outer header: nodes would send it round and round."""
        encapsulations = set(cases.Encapsulation) - {cases.Encapsulation.DSCP}
        for encapsulation, vip in itertools.product(
                encapsulations, (cases.VIP4, cases.VIP6)):
            if (encapsulation, vip) == (cases.Encapsulation.SRV6, cases.VIP4):
                continue
            self.use(cases.plain_node())
            self.service(vip)
            self.service(cases.OTHER4, members=[vip],
                         encapsulation=encapsulation)
            sent = self.forwarded(
                cases.link() / cases.ip4(dst=cases.OTHER4) / cases.tcp())
            with self.subTest(encapsulation.name, vip=vip):
                self.dropped(sent.frame, Outcome.DROP_TUNNEL)

    def test_service_at_the_gue_port_gets_its_packets(self):
        self.service(cases.VIP4, state.UDP, port=6080)
        self.forwarded(cases.link() / cases.ip4() / cases.udp(dport=6080))
        self.passed(cases.link() / cases.ip4() / cases.tcp(dport=6080))

    def test_tunnelled_packets_to_node_and_members_pass(self):
        inner = cases.ip4() / cases.tcp()
        for destination_ in (cases.NODE4, cases.MEMBER4):
            self.passed(cases.link() / cases.ip4(dst=destination_) / inner)
