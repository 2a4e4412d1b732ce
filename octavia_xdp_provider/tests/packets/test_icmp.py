# SPDX-License-Identifier: Apache-2.0
"""Echo, and errors that follow the flow that they quote."""

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support.cases import Action
from octavia_xdp_provider.tests.packets.support.cases import Outcome

ROUTER4, ROUTER6 = '203.0.113.9', '2001:db8:f::9'
MEMBERS4 = [f'10.1.0.{index}' for index in range(1, 9)]
MEMBERS6 = [f'fd00:1::{index}' for index in range(1, 9)]
ERRORS4 = ((3, 0), (3, 1), (3, 3), (3, 4), (3, 13), (4, 0), (5, 1), (11, 0),
           (11, 1), (12, 0))
ERRORS6 = ((1, 0), (1, 3), (1, 4), (2, 0), (3, 0), (3, 1), (4, 0), (4, 1))


class TestEcho(cases.PacketCase):

    def setUp(self):
        super().setUp()
        self.use(cases.plain_node(echo=True, icmp_rate=8000))
        self.service()
        self.service(cases.VIP6)

    def back(self, *vlans):
        packet = l2.Ether(dst=cases.ROUTER_MAC, src=cases.NODE_MAC)
        for vlan in vlans:
            packet /= l2.Dot1Q(vlan=vlan)
        return packet

    def test_echo_requests_to_the_vip_are_answered(self):
        for vlans in ((), (5,), (5, 6)):
            for size in (0, 1, 56, 1400):
                data = cases.payload(size)
                self.check(
                    cases.link(*vlans) / cases.ip4(flags='DF', tos=0xb8) /
                    inet.ICMP(id=7, seq=9) / data,
                    Action.TX, Outcome.ECHO_REPLY,
                    self.back(*vlans) /
                    inet.IP(src=cases.VIP4, dst=cases.CLIENT4, id=0x1234,
                            flags='DF', tos=0xb8, ttl=64) /
                    inet.ICMP(type=0, id=7, seq=9) / data)
                self.check(
                    cases.link(*vlans) / cases.ip6(tc=0xb8, fl=77) /
                    inet6.ICMPv6EchoRequest(id=7, seq=9, data=bytes(data)),
                    Action.TX, Outcome.ECHO_REPLY,
                    self.back(*vlans) /
                    inet6.IPv6(src=cases.VIP6, dst=cases.CLIENT6, tc=0xb8,
                               fl=77, hlim=64) /
                    inet6.ICMPv6EchoReply(id=7, seq=9, data=bytes(data)))

    def test_echo_reply_keeps_ipv4_options(self):
        option = [inet.IPOption(b'\x94\x04\0\0')]
        self.check(
            cases.link() / cases.ip4(options=option) / inet.ICMP(id=1),
            Action.TX, Outcome.ECHO_REPLY,
            self.back() / inet.IP(src=cases.VIP4, dst=cases.CLIENT4,
                                  id=0x1234, ttl=64, options=option) /
            inet.ICMP(type=0, id=1))

    def test_echo_reply_keeps_padding(self):
        result = self.check(
            cases.link() / cases.ip4() / inet.ICMP(), Action.TX,
            Outcome.ECHO_REPLY)
        padded = bytes(cases.link() / cases.ip4() / inet.ICMP()) + b'pad'
        again = self.check(Raw(padded), Action.TX, Outcome.ECHO_REPLY)
        self.assertEqual(result.frame + b'pad', again.frame)

    def test_echo_requests_of_martians_are_dropped(self):
        self.dropped(cases.link() / cases.ip4(src='127.0.0.1') / inet.ICMP(),
                     Outcome.DROP_MARTIAN)
        self.dropped(cases.link() / cases.ip6(src='::1') /
                     inet6.ICMPv6EchoRequest(), Outcome.DROP_MARTIAN)

    def test_echo_requests_to_other_hosts_pass(self):
        self.passed(cases.link() / cases.ip4(dst=cases.OTHER4) / inet.ICMP())
        self.passed(cases.link() / cases.ip6(dst=cases.OTHER6) /
                    inet6.ICMPv6EchoRequest())

    def test_fragmented_echo_requests_pass(self):
        self.passed(cases.link() / cases.ip4(flags='MF') / inet.ICMP())
        self.passed(cases.link() / cases.ip6() /
                    inet6.IPv6ExtHdrFragment(m=1) /
                    inet6.ICMPv6EchoRequest())

    def test_echo_requests_pass_when_echo_is_off(self):
        self.node.echo = False
        self.compared.set_node()
        self.passed(cases.link() / cases.ip4() / inet.ICMP())
        self.passed(cases.link() / cases.ip6() / inet6.ICMPv6EchoRequest())

    def test_echo_requests_pass_without_a_budget(self):
        self.node.icmp_rate = 0
        self.compared.set_node()
        self.passed(cases.link() / cases.ip4() / inet.ICMP())

    def test_echo_replies_and_other_messages_pass(self):
        for kind in (0, 9, 10, 13, 17):
            self.passed(cases.link() / cases.ip4() / inet.ICMP(type=kind))


class TestErrors(cases.PacketCase):

    def setUp(self):
        super().setUp()
        self.services = {
            (vip, protocol): self.service(vip, protocol, members)
            for vip, members in ((cases.VIP4, MEMBERS4),
                                 (cases.VIP6, MEMBERS6))
            for protocol in (state.TCP, state.UDP, state.SCTP)}

    def address(self, result):
        return result.service.members[result.member].address

    def quote(self, family: int, protocol: int, port: int,
              length: int = 8, header=None, vip_port: int = cases.PORT):
        """Return the first `length` bytes of a member's packet to a client."""
        if family == 4:
            base = header or inet.IP(src=cases.VIP4, dst=cases.CLIENT4)
            base.proto = protocol
        else:
            base = header or inet6.IPv6(src=cases.VIP6, dst=cases.CLIENT6)
            if header is None:
                base.nh = protocol
        ports = vip_port.to_bytes(2, 'big') + port.to_bytes(2, 'big')
        return bytes(base / Raw((ports + bytes(40))[:length]))

    def error(self, family: int, kind: int, code: int, quote: bytes,
              **fields):
        # Raw: scapy would take a quote that is cut short for a mistake
        icmp = bytes((kind, code, 0, 0, 0, 0, 5, 0)) + quote
        if family == 4:
            return cases.ip4(**{'src': ROUTER4, 'proto': 1, **fields}) / icmp
        return cases.ip6(**{'src': ROUTER6, 'nh': 58, **fields}) / icmp

    def transport(self, protocol: int, port: int):
        if protocol == state.TCP:
            return cases.tcp(sport=port)
        if protocol == state.UDP:
            return cases.udp(sport=port)
        data = cases.sctp_init()
        data.sport = port
        return data

    def test_errors_with_eight_quoted_bytes_follow_their_flow(self):
        """RFC 792 promises no more; four of them are the ports."""
        for family, errors, make, outer in (
                (4, ERRORS4, cases.ip4, cases.outer4),
                (6, ERRORS6, cases.ip6, cases.outer6)):
            seen = set()
            for kind, code in errors:
                for protocol in (state.TCP, state.UDP, state.SCTP):
                    port = 1024 + kind * 8 + protocol
                    flow = self.forwarded(
                        cases.link() / make() /
                        self.transport(protocol, port))
                    for length in (8, 4, 40):
                        packet = self.error(
                            family, kind, code,
                            self.quote(family, protocol, port, length))
                        packet = packet.__class__(bytes(packet))
                        result = self.forwarded(cases.link() / packet)
                        self.assertEqual(self.address(flow),
                                         self.address(result))
                        address = compared.text(self.address(flow))
                        fields = {}
                        if family == 6:
                            # the flow's, so that it takes the same path
                            fields['flow'] = int.from_bytes(
                                flow.frame[15:18], 'big') & 0xfffff
                        self.assertEqual(
                            bytes(outer(packet, address, **fields) /
                                  Raw(bytes(packet))).hex(),
                            result.frame.hex())
                    seen.add(self.address(flow))
            self.assertGreater(len(seen), 4)

    def test_quotes_may_have_options_and_extension_headers(self):
        flow = self.forwarded(cases.link() / cases.ip4() /
                              cases.tcp(sport=5000))
        header = inet.IP(src=cases.VIP4, dst=cases.CLIENT4,
                         options=[inet.IPOption(b'\x01' * 8)])
        result = self.forwarded(cases.link() / self.error(
            4, 3, 4, self.quote(4, state.TCP, 5000, header=header)))
        self.assertEqual(self.address(flow), self.address(result))
        flow = self.forwarded(cases.link() / cases.ip6() /
                              cases.tcp(sport=5000))
        header = (inet6.IPv6(src=cases.VIP6, dst=cases.CLIENT6) /
                  inet6.IPv6ExtHdrDestOpt(nh=6))
        result = self.forwarded(cases.link() / self.error(
            6, 2, 0, self.quote(6, state.TCP, 5000, header=header)))
        self.assertEqual(self.address(flow), self.address(result))

    def test_errors_follow_quoted_first_fragments_only(self):
        for flags, offset, good in (('MF', 0, True), ('', 5, False)):
            header = inet.IP(src=cases.VIP4, dst=cases.CLIENT4, flags=flags,
                             frag=offset)
            header6 = (inet6.IPv6(src=cases.VIP6, dst=cases.CLIENT6) /
                       inet6.IPv6ExtHdrFragment(nh=17, m=int(good),
                                                offset=offset))
            for packet in (
                    self.error(4, 11, 1, self.quote(4, state.UDP, 5000,
                                                    header=header)),
                    self.error(6, 3, 1, self.quote(6, state.UDP, 5000,
                                                   header=header6))):
                if good:
                    self.forwarded(cases.link() / packet)
                else:
                    self.dropped(cases.link() / packet, Outcome.DROP_ICMP)

    def test_errors_that_quote_no_flow_are_dropped(self):
        four = (
            b'', self.quote(4, state.TCP, 5000, 3),
            self.quote(4, state.TCP, 5000, vip_port=81),
            self.quote(4, 50, 5000), self.quote(4, 1, 5000),
            self.quote(4, state.TCP, 5000, header=inet.IP(
                src=cases.OTHER4, dst=cases.CLIENT4)),
            self.quote(4, state.TCP, 5000, header=inet.IP(
                src=cases.CLIENT4, dst=cases.VIP4)),
            b'\x44' + self.quote(4, state.TCP, 5000)[1:],
            b'\x65' + self.quote(4, state.TCP, 5000)[1:],
            self.quote(4, state.TCP, 5000)[:19])
        for quote in four:
            self.dropped(cases.link() / self.error(4, 3, 1, quote),
                         Outcome.DROP_ICMP)
        six = (
            b'', self.quote(6, state.TCP, 5000, 3),
            self.quote(6, state.TCP, 5000, vip_port=81),
            self.quote(6, 59, 5000),
            self.quote(6, state.TCP, 5000, header=inet6.IPv6(
                src=cases.OTHER6, dst=cases.CLIENT6, nh=6)),
            self.quote(6, state.TCP, 5000)[:39],
            b'\x45' + self.quote(6, state.TCP, 5000)[1:])
        for quote in six:
            self.dropped(cases.link() / self.error(6, 1, 4, quote),
                         Outcome.DROP_ICMP)

    def test_errors_to_other_hosts_pass(self):
        self.passed(cases.link() / self.error(
            4, 3, 4, self.quote(4, state.TCP, 5000), dst=cases.OTHER4))
        self.passed(cases.link() / self.error(
            6, 2, 0, self.quote(6, state.TCP, 5000), dst=cases.OTHER6))

    def test_errors_from_martians_are_dropped(self):
        self.dropped(cases.link() / self.error(
            4, 3, 4, self.quote(4, state.TCP, 5000), src='127.0.0.1'),
            Outcome.DROP_MARTIAN)
        self.dropped(cases.link() / self.error(
            6, 2, 0, self.quote(6, state.TCP, 5000), src='::1'),
            Outcome.DROP_MARTIAN)

    def test_errors_of_routers_need_no_allowed_network(self):
        service = self.services[cases.VIP4, state.TCP]
        service.allowed = [(compared.packed(cases.CLIENT4), 32)]
        self.compared.set_service(service, list(service.members.values()))
        self.forwarded(cases.link() / self.error(
            4, 3, 4, self.quote(4, state.TCP, 5000)))

    def test_errors_that_do_not_fit_are_not_answered(self):
        """No answer is sent: it would be an error about an error."""
        self.node.icmp_rate = 100
        self.node.pass_too_big = True
        self.compared.set_node()
        for family in (4, 6):
            quote = self.quote(family, state.TCP, 5000, 40)
            packet = self.error(family, 3, 1, quote + bytes(1420))
            self.dropped(cases.link() / packet, Outcome.DROP_TOO_BIG)

    def test_rewritten_errors_have_the_right_checksums(self):
        """ICMPv6's checksum covers addresses, ICMP's does not."""
        for vip, member in ((cases.VIP4, cases.MEMBER4),
                            (cases.VIP6, cases.MEMBER6)):
            service = self.services[vip, state.TCP]
            service.encapsulation = cases.Encapsulation.DSCP
            service.dscp = 20
            self.compared.set_service(
                service, [state.Member(compared.packed(member))])
        link = l2.Ether(dst=cases.GATEWAY4_MAC, src=cases.NODE_MAC)
        quote = (inet.IP(src=cases.VIP4, dst=cases.CLIENT4) /
                 inet.TCP(sport=80, dport=5000))
        icmp = inet.ICMP(type=3, code=4) / quote
        self.forwarded(
            cases.link() / cases.ip4(src=ROUTER4) / icmp,
            link / cases.ip4(src=ROUTER4, dst=cases.MEMBER4, tos=80) / icmp)
        link = l2.Ether(dst=cases.GATEWAY6_MAC, src=cases.NODE_MAC)
        quote = (inet6.IPv6(src=cases.VIP6, dst=cases.CLIENT6) /
                 inet.TCP(sport=80, dport=5000))
        icmp = inet6.ICMPv6PacketTooBig(mtu=1400) / quote
        self.forwarded(
            cases.link() / cases.ip6(src=ROUTER6) / icmp,
            link / cases.ip6(src=ROUTER6, dst=cases.MEMBER6, tc=80) / icmp)
