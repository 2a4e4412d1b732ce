# SPDX-License-Identifier: Apache-2.0
"""NAT within each family and between both, in both directions.

Expectations come from scapy, which computes each checksum; the model runs
along.
"""

import itertools

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support.cases import Action
from octavia_xdp_provider.tests.packets.support.cases import Outcome

MESSAGES = {
    4: [inet.ICMP(type=3, code=code, nexthopmtu=1300)
        for code in range(16)] +
       [inet.ICMP(type=4), inet.ICMP(type=5), inet.ICMP(type=11, code=0),
        inet.ICMP(type=11, code=1)] +
       [inet.ICMP(type=12, code=code, ptr=pointer)
        for code in (0, 1, 2) for pointer in range(22)],
    6: [inet6.ICMPv6DestUnreach(code=code) for code in range(7)] +
       [inet6.ICMPv6PacketTooBig(mtu=mtu) for mtu in (1280, 1500,
                                                      70000)] +
       [inet6.ICMPv6TimeExceeded(code=code) for code in (0, 1)] +
       [inet6.ICMPv6ParamProblem(code=code, ptr=pointer)
        for code in (0, 1, 2) for pointer in range(42)]}
ROUTER = {4: '10.200.0.1', 6: '2001:db8:ffff::1'}


def error(family: int, message, quoted, length: int):
    """About a packet that left as `quoted`."""
    make = inet.IP if family == 4 else inet6.IPv6
    return (cases.link() / make(src=ROUTER[family], dst=quoted.src) /
            message / bytes(quoted)[:length])


class TestTranslation(nat_cases.NatCase):

    def test_requests_go_to_the_member_and_answers_come_back(self):
        for (front, back), protocol in itertools.product(
                nat_cases.PAIRS, (state.TCP, state.UDP)):
            for length in (0, 1, 2, 33, 1000, 1301):
                with self.subTest(front=front, back=back, protocol=protocol,
                                  length=length):
                    service = self.known(front, back, protocol)
                    layer = nat_cases.LAYER[protocol]
                    make = cases.tcp if protocol == state.TCP else cases.udp
                    out = self.sent(self.request(front, make()) /
                                    cases.payload(length))
                    pool, number, _ = self.flow(service)
                    self.assertEqual(
                        (pool, nat_cases.MEMBER[back], number,
                         nat_cases.LOCAL),
                        (out.src, out.dst, out[layer].sport,
                         out[layer].dport))
                    self.assertEqual(bytes(cases.payload(length)),
                                     bytes(out[layer].payload))
                    self.assertEqual(
                        56, out.ttl if back == 4 else out.hlim)
                    self.assertTrue(nat_cases.is_sound(out))
                    back_again = self.sent(self.answer(
                        service, back, make() / cases.payload(length)))
                    self.assertEqual(
                        (*nat_cases.FRONT[front][:2], cases.PORT, 40000),
                        (back_again.src, back_again.dst,
                         back_again[layer].sport, back_again[layer].dport))
                    self.assertTrue(nat_cases.is_sound(back_again))
                    self.compared.compare_counters()
                    self.compared.delete_service(service)

    def test_options_and_extension_headers(self):
        for front, back in nat_cases.PAIRS:
            service = self.known(front, back)
            if front == 4:
                packet = self.request(4, cases.tcp(), options=[
                    inet.IPOption_Router_Alert()])
            else:
                packet = (cases.link() / cases.ip6() /
                          inet6.IPv6ExtHdrDestOpt() / cases.tcp())
            out = self.sent(packet / cases.payload(20))
            self.assertEqual(nat_cases.LOCAL, out[inet.TCP].dport)
            self.assertTrue(nat_cases.is_sound(out) or front == back)
            kept = out.ihl > 5 if back == 4 else out.nh == 60
            self.assertEqual(front == back, kept)
            self.compared.delete_service(service)

    def test_a_source_route_that_goes_on(self):
        service = self.known(4, 6)
        on = inet.IPOption_LSRR(routers=['10.9.9.9'], pointer=4)
        over = inet.IPOption_LSRR(routers=['10.9.9.9'], pointer=8)
        self.sent(self.request(4, cases.tcp(), options=[over]))
        self.dropped(self.request(4, cases.tcp(), options=[on]),
                     Outcome.DROP_NAT_UNTRANSLATABLE)
        self.compared.compare_counters()
        self.assertEqual(1, service.drops)

    def test_ttl_ends_here(self):
        for front, back in nat_cases.PAIRS:
            service = self.known(front, back)
            self.sent(self.request(front, cases.tcp()))
            name = 'ttl' if front == 4 else 'hlim'
            for value in (0, 1):
                self.dropped(self.request(front, cases.tcp(),
                                          **{name: value}), Outcome.DROP_TTL)
            name = 'ttl' if back == 4 else 'hlim'
            self.dropped(self.answer(service, back, cases.tcp(),
                                     **{name: 1}), Outcome.DROP_TTL)
            self.compared.delete_service(service)

    def test_fragments_follow_the_first_one(self):
        for front, back in nat_cases.PAIRS:
            with self.subTest(front=front, back=back):
                service = self.nat_service(front, back, state.UDP)
                whole = cases.udp() / cases.payload(1400)
                first, later = self.fragments(front, whole)
                self.dropped(later, Outcome.DROP_FRAGMENT)
                start = self.sent(first)
                other = self.sent(later)
                pool, number, _ = self.flow(service)
                self.assertEqual((number, nat_cases.LOCAL),
                                 (start[inet.UDP].sport,
                                  start[inet.UDP].dport))
                self.assertEqual((pool, nat_cases.MEMBER[back]),
                                 (other.src, other.dst))
                self.assertTrue(self.is_whole(start, other, whole))
                self.compared.delete_service(service)

    def fragments(self, family: int, whole):
        """Two frames of a UDP packet, whose checksum is right."""
        make = nat_cases.FRONT[family][2]
        raw = bytes(make() / whole)[20 if family == 4 else 40:]
        if family == 4:
            return (cases.link() / make(flags='MF', proto=17) / raw[:800],
                    cases.link() / make(frag=100, proto=17) / raw[800:])
        return (cases.link() / make() / inet6.IPv6ExtHdrFragment(
            nh=17, m=1, id=0x12345) / raw[:800],
                cases.link() / make() / inet6.IPv6ExtHdrFragment(
                    nh=17, offset=100, id=0x12345) / raw[800:])

    @staticmethod
    def is_whole(first, other, whole) -> bool:
        """Whether a receiver can put them together, and the sum is right."""
        if isinstance(first, inet.IP):
            if first.id != other.id or other.frag != 100:
                return False
            raw = bytes(first.payload) + bytes(other.payload)
            again = inet.IP(src=first.src, dst=first.dst) / inet.UDP(raw)
        else:
            ends = [part[inet6.IPv6ExtHdrFragment] for part in (first, other)]
            if ends[0].id != ends[1].id or ends[1].offset != 100:
                return False
            raw = bytes(ends[0].payload) + bytes(ends[1].payload)
            again = inet6.IPv6(src=first.src, dst=first.dst) / inet.UDP(raw)
        return (nat_cases.is_sound(again.__class__(bytes(again))) and
                bytes(again[inet.UDP].payload) ==
                bytes(whole[inet.UDP].payload))

    def test_headers_around_that_of_a_fragment(self):
        """RFC 7915, section 5.1: those in front of it go; what has some
        behind it is dropped, as later fragments would name another protocol.
        """
        service = self.nat_service(6, 4, state.UDP)
        first = inet6.IPv6ExtHdrFragment(m=1, id=0x54321)
        options = inet6.IPv6ExtHdrDestOpt(
            options=[inet6.PadN(optdata=bytes(12))])
        body = cases.udp() / cases.payload(800)
        self.dropped(self.request(6, first / options / body),
                     Outcome.DROP_NAT_UNTRANSLATABLE)
        for front in (first, options / first, options / options / first):
            with self.subTest(front=repr(front)):
                sent = self.sent(self.request(6, front / body))
                pool, number, _ = self.flow(service)
                wanted = inet.IP(src=pool, dst=nat_cases.MEMBER[4],
                                 flags='MF', id=0x4321, ttl=sent.ttl) / (
                    inet.UDP(sport=number, dport=nat_cases.LOCAL) /
                    cases.payload(800))
                wanted[inet.UDP].chksum = sent[inet.UDP].chksum
                self.assertEqual(bytes(wanted), bytes(sent))

    def test_too_big_is_answered_with_what_its_sender_may_send(self):
        for front, back in nat_cases.PAIRS:
            self.use(cases.plain_node(icmp_rate=1000))
            self.known(front, back, members=[state.Member(
                compared.packed(nat_cases.MEMBER[back]),
                port=nat_cases.LOCAL, mtu=1400)])
            fields = {'flags': 'DF'} if front == 4 else {}
            result = self.check(
                self.request(front, cases.tcp(), **fields) /
                cases.payload(1400), Action.TX, Outcome.SENT_TOO_BIG)
            out = nat_cases.parsed(result.frame)
            said = (out[inet.ICMP].nexthopmtu if front == 4 else
                    out[inet6.ICMPv6PacketTooBig].mtu)
            more = {(4, 6): -20, (6, 4): 20}.get((front, back), 0)
            self.assertEqual(1400 + more, said)

    def test_mss_of_both_sides(self):
        for front, back in nat_cases.PAIRS:
            self.use(cases.plain_node(clamp_mss=True))
            service = self.nat_service(front, back)
            options = {'options': [('MSS', 8960)]}
            wanted = 1460 if front == back == 4 else 1440
            out = self.sent(self.request(front, cases.tcp(flags='S',
                                                          **options)))
            self.assertIn(('MSS', wanted), out[inet.TCP].options)
            self.assertTrue(nat_cases.is_sound(out))
            out = self.sent(self.answer(service, back, cases.tcp(
                flags='SA', **options)))
            self.assertIn(('MSS', wanted), out[inet.TCP].options)
            self.assertTrue(nat_cases.is_sound(out))


class TestErrors(nat_cases.NatCase):

    def run_errors(self, family, other, quoted, wanted):
        """Errors about `quoted` become such that quote `wanted`."""
        least = 28 if family == 4 else 48
        for message in MESSAGES[family]:
            for length in (least, 200):
                result = self.run_one(error(family, message, quoted,
                                                 length))
                if result.outcome == Outcome.DROP_NAT_UNTRANSLATABLE:
                    self.assertNotEqual(family, other)
                    continue
                self.assertEqual(Outcome.FORWARDED, result.outcome)
                out = nat_cases.parsed(result.frame)
                self.assertTrue(nat_cases.is_sound(out), result.frame.hex())
                quote = bytes(out)[28 if other == 4 else 48:]
                inner = (inet.IP if other == 4 else inet6.IPv6)(quote)
                self.assertEqual(
                    (wanted.src, wanted.dst), (inner.src, inner.dst))
                at = 20 if other == 4 else 40
                self.assertEqual(bytes(wanted)[at:at + 4], quote[at:at + 4])

    def test_errors_go_to_the_other_end_with_its_own_packet(self):
        for (front, back), protocol in itertools.product(
                nat_cases.PAIRS, (state.TCP, state.UDP)):
            with self.subTest(front=front, back=back, protocol=protocol):
                service = self.known(front, back, protocol)
                make = cases.tcp if protocol == state.TCP else cases.udp
                asked = self.request(front, make()) / cases.payload(300)
                out = self.sent(asked)
                self.run_errors(back, front, out,
                                nat_cases.parsed(bytes(asked)))
                answer = self.answer(service, back,
                                     make() / cases.payload(300))
                out = self.sent(answer)
                self.run_errors(front, back, out,
                                nat_cases.parsed(bytes(answer)))
                self.compared.compare_counters()
                self.compared.delete_service(service)

    def test_errors_about_nothing(self):
        self.nat_service()
        for target in (cases.VIP4, '203.0.113.1'):
            quoted = inet.IP(src=target, dst='10.5.5.5') / cases.tcp()
            self.dropped(error(4, inet.ICMP(type=3), quoted, 28),
                         Outcome.DROP_ICMP)
