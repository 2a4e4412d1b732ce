# SPDX-License-Identifier: Apache-2.0
"""Translation between IPv4 and IPv6 as RFC 7915 has it.

What is expected is written down from its text and built by scapy; the model of
the forwarding program, which other tests compare it with, has no part in it.
"""

from scapy import packet as scapy_packet
from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import nat_cases

Outcome = cases.Outcome
ROUTER = {4: '10.200.0.1', 6: '2001:db8:ffff::1'}
DROPPED = None
UNREACHABLE, TOO_BIG, EXCEEDED, PARAMETER = 1, 2, 3, 4  # of ICMPv6

# Section 4.2: (type, code) of ICMPv4 → of ICMPv6.
TO_V6 = {
    **{(3, code): (UNREACHABLE, 0) for code in (0, 1, 5, 6, 7, 8, 11, 12)},
    (3, 3): (UNREACHABLE, 4),
    **{(3, code): (UNREACHABLE, 1) for code in (9, 10, 13, 15)},
    (3, 14): DROPPED, (3, 16): DROPPED,
    (11, 0): (EXCEEDED, 0), (11, 1): (EXCEEDED, 1),
    (12, 1): DROPPED, (12, 3): DROPPED, (4, 0): DROPPED,
}
# Figure 3: pointers of ICMPv4 → of ICMPv6.
POINTERS_V6 = {0: 0, 1: 1, 2: 4, 3: 4, **dict.fromkeys((4, 5, 6, 7), DROPPED),
               8: 7, 9: 6, 10: DROPPED, 11: DROPPED,
               **dict.fromkeys(range(12, 16), 8),
               **dict.fromkeys(range(16, 20), 24), 20: DROPPED}
# Section 5.2, likewise the other way round.
TO_V4 = {
    (UNREACHABLE, 0): (3, 1), (UNREACHABLE, 1): (3, 10),
    (UNREACHABLE, 2): (3, 1), (UNREACHABLE, 3): (3, 1),
    (UNREACHABLE, 4): (3, 3), (UNREACHABLE, 5): DROPPED,
    (UNREACHABLE, 6): DROPPED,
    (EXCEEDED, 0): (11, 0), (EXCEEDED, 1): (11, 1),
    (PARAMETER, 1): (3, 2), (PARAMETER, 2): DROPPED,
}
# Figure 6.
POINTERS_V4 = {0: 0, 1: 1, 2: DROPPED, 3: DROPPED, 4: 2, 5: 2, 6: 9, 7: 8,
               **dict.fromkeys(range(8, 24), 12),
               **dict.fromkeys(range(24, 40), 16)}
_CLASSES = {UNREACHABLE: inet6.ICMPv6DestUnreach,
            EXCEEDED: inet6.ICMPv6TimeExceeded,
            PARAMETER: inet6.ICMPv6ParamProblem}


class TestErrors(nat_cases.NatCase):
    """ICMP errors of routers between node and member, to the client."""

    def quoted(self, front, back):
        """(what the client sent, what it left as)"""
        self.known(front, back)
        asked = self.request(front, cases.tcp()) / cases.payload(300)
        return nat_cases.parsed(bytes(asked)), self.sent(asked)

    def translated(self, back, message, quoted):
        """The packet to the client, or DROPPED."""
        make = inet.IP if back == 4 else inet6.IPv6
        result = self.run_one(
            cases.link() / make(src=ROUTER[back], dst=quoted.src) / message /
            bytes(quoted)[:200])
        if result.outcome == Outcome.DROP_NAT_UNTRANSLATABLE:
            return DROPPED
        self.assertEqual(Outcome.FORWARDED, result.outcome)
        out = nat_cases.parsed(result.frame)
        self.assertTrue(nat_cases.is_sound(out), bytes(out).hex())
        return out

    def test_icmpv4_to_icmpv6(self):
        asked, left = self.quoted(6, 4)
        for (kind, code), wanted in TO_V6.items():
            with self.subTest(kind=kind, code=code):
                out = self.translated(
                    4, inet.ICMP(type=kind, code=code), left)
                self.check_v6(out, wanted, asked)

    def check_v6(self, out, wanted, asked):
        if wanted is DROPPED:
            self.assertIsNone(out)
            return
        self.assertEqual((58, asked.src), (out.nh, out.dst))
        message = bytes(out)[40:]
        self.assertEqual(wanted, (message[0], message[1]))
        # The quoted packet is the one that the client sent, but for its length
        # and its checksum, of which nothing is known here.
        self.assertEqual(bytes(asked)[8:56], message[8:][8:56])

    def test_pointers_of_icmpv4(self):
        asked, left = self.quoted(6, 4)
        for code in (0, 2):
            for pointer, wanted in POINTERS_V6.items():
                with self.subTest(code=code, pointer=pointer):
                    out = self.translated(4, inet.ICMP(
                        type=12, code=code, ptr=pointer), left)
                    self.check_v6(out, None if wanted is DROPPED
                                  else (PARAMETER, 0), asked)
                    if out is not None:
                        self.assertEqual(wanted, int.from_bytes(
                            bytes(out)[44:48], 'big'))

    def test_protocol_unreachable_points_at_the_next_header(self):
        asked, left = self.quoted(6, 4)
        out = self.translated(4, inet.ICMP(type=3, code=2), left)
        self.check_v6(out, (PARAMETER, 1), asked)
        self.assertEqual(6, int.from_bytes(bytes(out)[44:48], 'big'))

    def test_sizes_to_ipv6(self):
        """20 bytes more, and never below 1280; a router that says nothing
        means a plateau of RFC 1191 below the packet's length."""
        asked, left = self.quoted(6, 4)
        for said, wanted in ((1400, 1420), (1300, 1320), (1261, 1281),
                             (1260, 1280), (600, 1280), (68, 1280),
                             (0, 1280)):
            with self.subTest(said=said):
                out = self.translated(4, inet.ICMP(
                    type=3, code=4, nexthopmtu=said), left)
                self.check_v6(out, (TOO_BIG, 0), asked)
                self.assertEqual(wanted, int.from_bytes(
                    bytes(out)[44:48], 'big'))

    def test_icmpv6_to_icmpv4(self):
        asked, left = self.quoted(4, 6)
        for (kind, code), wanted in TO_V4.items():
            with self.subTest(kind=kind, code=code):
                out = self.translated(6, _CLASSES[kind](code=code), left)
                self.check_v4(out, wanted, asked)

    def check_v4(self, out, wanted, asked):
        if wanted is DROPPED:
            self.assertIsNone(out)
            return
        self.assertEqual((1, asked.src), (out.proto, out.dst))
        self.assertEqual(wanted, (out[inet.ICMP].type, out[inet.ICMP].code))
        inner = inet.IP(bytes(out)[28:])
        self.assertEqual(
            (asked.src, asked.dst, asked.proto, asked.tos),
            (inner.src, inner.dst, inner.proto, inner.tos))
        self.assertEqual(bytes(asked)[20:28], bytes(out)[48:56])

    def test_quotes_of_lengths_that_the_other_family_lacks_are_dropped(self):
        """IPv4 carries 65,515 bytes at most; no packet is shorter than its
        own headers."""
        asked, left = self.quoted(4, 6)
        tail = bytes(left)[40:]
        for length, options, expected in (
                (65535, b'', DROPPED), (65516, b'', DROPPED),
                (65515, b'', (11, 0)), (len(tail), b'', (11, 0)),
                (7, bytes((6, 0)) + bytes(6), DROPPED)):
            with self.subTest(length=length):
                quote = left.copy()
                del quote.payload
                quote.plen = length
                quote.nh = 0 if options else 6
                out = self.translated(
                    6, inet6.ICMPv6TimeExceeded(),
                    quote / scapy_packet.Raw(options + tail))
                self.check_v4(out, expected, asked)
        asked, left = self.quoted(6, 4)
        left.len = 19
        self.assertIsNone(self.translated(
            4, inet.ICMP(type=11, code=0), left))

    def test_pointers_of_icmpv6(self):
        asked, left = self.quoted(4, 6)
        for pointer, wanted in POINTERS_V4.items():
            with self.subTest(pointer=pointer):
                out = self.translated(6, inet6.ICMPv6ParamProblem(
                    code=0, ptr=pointer), left)
                self.check_v4(out, None if wanted is DROPPED else (12, 0),
                              asked)
                if out is not None:
                    self.assertEqual(wanted, out[inet.ICMP].ptr)

    def test_sizes_to_ipv4(self):
        asked, left = self.quoted(4, 6)
        for said in (1280, 1300, 1400):
            with self.subTest(said=said):
                out = self.translated(6, inet6.ICMPv6PacketTooBig(mtu=said),
                                      left)
                self.check_v4(out, (3, 4), asked)
                self.assertEqual(said - 20, out[inet.ICMP].nexthopmtu)


class TestHeaders(nat_cases.NatCase):

    def other(self, service, packet, back, **header):
        """The packet as scapy makes it, from the flow's address and port."""
        pool, number, _ = self.flow(service)
        make = inet.IP if back == 4 else inet6.IPv6
        layer = packet.getlayer(inet.UDP)
        return make(src=pool, dst=nat_cases.MEMBER[back], **header) / (
            inet.UDP(sport=number, dport=nat_cases.LOCAL) /
            bytes(layer.payload))

    def test_ipv6_to_ipv4(self):
        """Section 5.1; the identification is the translator's own where the
        packet may be cut."""
        service = self.nat_service(6, 4, state.UDP)
        for length, flags in ((0, ''), (100, ''), (1300, 'DF')):
            with self.subTest(length=length):
                asked = self.request(6, cases.udp(), tc=0xb9, fl=0x12345,
                                     hlim=9) / cases.payload(length)
                out = self.sent(asked)
                wanted = self.other(service, asked, 4, tos=0xb9, ttl=8,
                                    flags=flags, id=out.id)
                self.assertEqual(bytes(wanted), bytes(out))

    def test_ipv4_to_ipv6(self):
        """Section 4.1."""
        service = self.nat_service(4, 6, state.UDP)
        for flags, identity in (('DF', 0), ('DF', 4711), ('', 4711)):
            with self.subTest(flags=flags):
                asked = self.request(4, cases.udp(), tos=0x2e, ttl=9,
                                     flags=flags, id=identity) / (
                    cases.payload(100))
                out = self.sent(asked)
                wanted = self.other(service, asked, 6, tc=0x2e, fl=0, hlim=8)
                self.assertEqual(bytes(wanted), bytes(out))

    def test_atomic_fragments(self):
        """Section 5.1.1: it may be cut. Its identification would be unique
        among those of its sender; the node's own one is among those of all
        senders that have this address."""
        service = self.nat_service(6, 4, state.UDP)
        asked = (cases.link() / cases.ip6() / inet6.IPv6ExtHdrFragment(
            m=0, offset=0, id=0x12345678) / cases.udp() / cases.payload(80))
        out = self.sent(asked)
        wanted = self.other(service, asked, 4, flags='', id=out.id,
                            ttl=out.ttl)
        self.assertEqual(bytes(wanted), bytes(out))

    def test_source_port_0(self):
        """RFC 768: it means none, and a checksum covers it all the same."""
        for front, back in nat_cases.PAIRS:
            with self.subTest(front=front, back=back):
                service = self.nat_service(front, back, state.UDP)
                result = self.run_one(self.request(
                    front, inet.UDP(sport=0, dport=cases.PORT)) /
                    cases.payload(20))
                self.assertEqual(Outcome.FORWARDED, result.outcome)
                self.assertTrue(nat_cases.is_sound(
                    nat_cases.parsed(result.frame)))
                self.compared.compare_counters()
                self.compared.delete_service(service)
