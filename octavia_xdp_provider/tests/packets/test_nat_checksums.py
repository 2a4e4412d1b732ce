# SPDX-License-Identifier: Apache-2.0
"""Checksums that come out as one of the two zeroes, of what NAT rewrites."""

from scapy.layers import inet
from scapy.layers import inet6
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import checksums
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support.cases import Outcome

ROUNDS = 4
HEADER = checksums.HEADER
TCP, UDP = checksums.CHECKSUM[state.TCP], 6
ICMP = {4: 2, 6: 2}
MESSAGE = {4: inet.ICMP(type=3, code=3), 6: inet6.ICMPv6DestUnreach(code=4)}
ROUTER = {4: '10.200.0.1', 6: '2001:db8:ffff::1'}
IP = {4: inet.IP, 6: inet6.IPv6}


class TestNat(checksums.ChecksumCase):

    pools = nat_cases.POOLS

    def setUp(self):
        super().setUp()
        self.use(cases.plain_node())

    def each(self, protocol: int):
        """Pairs of families, each with a service of its own."""
        for front, back in nat_cases.PAIRS:
            with self.subTest(front=front, back=back):
                service = self.service(
                    checksums.VIPS[front], protocol,
                    [state.Member(compared.packed(nat_cases.MEMBER[back]),
                                  port=nat_cases.LOCAL)], nat=True)
                for _ in range(ROUNDS):
                    yield front, back
                self.compared.delete_service(service)

    def answering(self, back: int, sent: bytes):
        """Return the headers of a member's answer to a packet."""
        out = IP[back](sent)
        layer = inet.TCP if inet.TCP in out else inet.UDP
        return (IP[back](src=out.dst, dst=out.src),
                {'sport': out[layer].dport, 'dport': out[layer].sport})

    def opened(self, family: int):
        """Addresses at random, of a connection."""
        head = self.head(family)
        self.leaves(head / cases.tcp(flags='S'))
        return head

    def right(self, seen: bytes, family: int):
        self.assertTrue(checksums.is_right(seen, family), seen.hex())

    def test_tcp_of_both_directions(self):
        for front, back in self.each(state.TCP):
            head, data = self.opened(front), Raw(self.data())
            seen = self.zero(
                lambda word, head=head, data=data:
                head / cases.tcp(window=word) / data, HEADER[back] + TCP)
            self.right(seen, back)
            head, ports = self.answering(back, seen)
            self.right(self.zero(
                lambda word, head=head, data=data, ports=ports:
                head / cases.tcp(window=word, **ports) / data,
                HEADER[front] + TCP), front)

    def test_resets_of_unknown_connections(self):
        self.use(cases.plain_node(icmp_rate=1000000))
        for front, _back in self.each(state.TCP):
            head = self.head(front)
            self.right(self.zero(
                lambda word, head=head: head / cases.tcp(ack=word),
                HEADER[front] + TCP, 0, Outcome.SENT_RESET), front)

    def test_udp_is_never_sent_with_0(self):
        for front, back in self.each(state.UDP):
            head, data = self.head(front), self.data()
            seen = self.zero(
                lambda word, head=head, data=data: head / cases.udp() /
                Raw(word.to_bytes(2, 'big') + data), HEADER[back] + UDP,
                0xffff)
            self.right(seen, back)
            head, ports = self.answering(back, seen)
            self.right(self.zero(
                lambda word, head=head, data=data, ports=ports:
                head / cases.udp(**ports) / Raw(
                    word.to_bytes(2, 'big') + data),
                HEADER[front] + UDP, 0xffff), front)

    def test_udp_that_had_none_gets_none_of_zero(self):
        for front, back in self.each(state.UDP):
            if (front, back) != (4, 6):
                continue
            head, data = self.head(front), self.data()
            self.right(self.zero(
                lambda word, head=head, data=data:
                head / cases.udp(chksum=0) / Raw(
                    word.to_bytes(2, 'big') + data), HEADER[6] + UDP,
                0xffff), 6)

    def test_headers_of_ipv4(self):
        for front, back in self.each(state.TCP):
            if (front, back) != (4, 4):
                continue
            head = self.opened(4)

            def make(word, head=head):
                head.id = word
                return head / cases.tcp()
            self.right(self.zero(make, 10), 4)

    def test_errors_to_both_ends(self):
        """The last word of what they quote makes up for the rest."""
        for protocol, make in ((state.TCP, cases.tcp), (state.UDP,
                                                        cases.udp)):
            for front, back in self.each(protocol):
                head = (self.opened(front) if protocol == state.TCP else
                        self.head(front))
                asked = self.leaves(head / make())
                self.error(back, front, asked)
                head, ports = self.answering(back, asked)
                self.error(front, back, self.leaves(
                    head / make(**ports)))

    def error(self, family: int, other: int, quoted: bytes):
        """About what left, to who sent it."""
        head = IP[family](src=ROUTER[family], dst=IP[family](quoted).src)
        seen = self.zero(
            lambda word: head / MESSAGE[family] / Raw(
                quoted + word.to_bytes(2, 'big')),
            HEADER[other] + ICMP[other])
        self.right(seen, other)

    def test_quoted_headers_of_ipv4(self):
        for front, back in self.each(state.TCP):
            if (front, back) != (4, 4):
                continue
            asked = inet.IP(self.leaves(self.opened(4) / cases.tcp()))

            def make(word, asked=asked):
                asked.id = word
                del asked.chksum
                return (inet.IP(src=ROUTER[4], dst=asked.src) / MESSAGE[4] /
                        asked)
            self.right(self.zero(make, 20 + 8 + 10), 4)
