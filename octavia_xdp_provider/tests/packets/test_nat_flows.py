# SPDX-License-Identifier: Apache-2.0
"""Flows of NAT: when they begin and end, and what has none."""

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import nat
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support.cases import Action
from octavia_xdp_provider.tests.packets.support.cases import Outcome


class TestFlows(nat_cases.NatCase):

    def test_what_goes_on_behind_a_reset_counts(self):
        """A client pretends that its connection has ended, at a limit of 1,
        by a reset that the member does not take for one."""
        service = self.nat_service(connection_limit=1)
        self.sent(self.request(4, cases.tcp(flags='S')))
        self.sent(self.request(4, cases.tcp(flags='R')))
        answer = self.answer(service, 4, cases.tcp(flags='SA'))
        self.sent(answer)
        self.assertEqual(0, self.compared.active(service))
        self.sent(self.request(4, cases.tcp(flags='A')))
        self.assertEqual(nat.State.ESTABLISHED, self.state_of(service))
        self.dropped(self.request(4, cases.tcp(flags='S', sport=40001)),
                     Outcome.DROP_CONNECTION_LIMIT)
        # the other way round the first one has no place any more
        self.sent(self.request(4, cases.tcp(flags='R')))
        self.sent(self.request(4, cases.tcp(flags='S', sport=40001)))
        self.sent(answer)
        self.dropped(self.request(4, cases.tcp(flags='A')),
                     Outcome.DROP_CONNECTION_LIMIT)
        self.assertEqual(nat.State.TIME_WAIT, self.state_of(service))
        self.assertEqual(1, self.compared.active(service))
        self.compared.compare_connections()

    def test_what_no_reset_answers_takes_no_budget(self):
        syn = cases.tcp(flags='S', sport=40001)
        options = inet6.IPv6ExtHdrDestOpt()
        for front, fragment in (
                (4, self.request(4, syn, flags='MF')),
                (6, self.request(6, options / syn))):
            self.use(cases.plain_node(icmp_rate=1))
            self.nat_service(front, 4, connection_limit=1, sends_reset=True)
            self.sent(self.request(front, cases.tcp(flags='S')))
            unanswerable, whole = bytes(fragment), bytes(
                self.request(front, syn))
            while not (results := self.compared.run(
                    [unanswerable, unanswerable, whole, whole])):
                pass
            self.assertEqual(
                [Outcome.DROP_CONNECTION_LIMIT] * 2 +
                [Outcome.SENT_RESET, Outcome.DROP_CONNECTION_LIMIT],
                [result.outcome for result in results])

    def test_neither_pings_nor_what_is_too_big_take_budget_of_resets(self):
        self.use(cases.plain_node(echo=True, icmp_rate=8))  # a source: 1
        self.nat_service()
        self.sent(self.request(4, cases.tcp(flags='S')))
        ping = bytes(cases.link() / cases.ip4() / inet.ICMP())
        large = bytes(self.request(
            4, cases.tcp() / cases.payload(1500), flags='DF'))
        unknown = bytes(self.request(4, cases.tcp(sport=40001)))
        while not (results := self.compared.run(
                [ping, large, unknown, ping, large, unknown])):
            pass
        self.assertEqual(
            [Outcome.ECHO_REPLY, Outcome.SENT_TOO_BIG, Outcome.SENT_RESET,
             Outcome.PASS, Outcome.DROP_TOO_BIG, Outcome.DROP_NO_NAT_FLOW],
            [result.outcome for result in results])

    def test_who_may_come_is_asked_of_each_packet_of_clients(self):
        for front, back in nat_cases.PAIRS:
            client = compared.packed(nat_cases.FRONT[front][1])
            allowed = [(client, 8 * len(client))]
            service = self.nat_service(front, back, allowed=allowed)
            self.dropped(self.request(
                front, cases.tcp(flags='S'),
                src='198.51.100.8' if front == 4 else '2001:db8:c::8'),
                Outcome.DROP_NOT_ALLOWED)
            self.sent(self.request(front, cases.tcp(flags='S')))
            service.allowed = [(bytes(len(client)), 8)]
            self.compared.set_service(
                service, self.compared.members[id(service)])
            self.dropped(self.request(front, cases.tcp()),
                         Outcome.DROP_NOT_ALLOWED)
            # the client could come when it began
            self.sent(self.answer(service, back, cases.tcp(flags='SA')))
            self.assertEqual(2, service.drops)
            self.compared.compare_counters()
            self.compared.delete_service(service)

    def reset(self, packet):
        """The reset that answers a packet of an unknown flow."""
        result = self.check(packet, Action.TX, Outcome.SENT_RESET)
        out = nat_cases.parsed(result.frame)
        self.assertTrue(nat_cases.is_sound(out))
        asked = packet.payload
        self.assertEqual(
            (asked.dst, asked.src, asked[inet.TCP].dport,
             asked[inet.TCP].sport, asked[inet.TCP].ack, 0, 'R', 64),
            (out.src, out.dst, out[inet.TCP].sport, out[inet.TCP].dport,
             out[inet.TCP].seq, out[inet.TCP].ack, str(out[inet.TCP].flags),
             out.ttl if out.version == 4 else out.hlim))
        self.assertEqual(20, len(bytes(out[inet.TCP])))

    def test_unknown_connections_are_reset(self):
        self.use(cases.plain_node(icmp_rate=1000))
        for front, back in nat_cases.PAIRS:
            with self.subTest(front=front, back=back):
                service = self.nat_service(front, back)
                for flags in ('A', 'PA', 'FA', 'SA'):
                    self.reset(self.request(front, cases.tcp(
                        flags=flags, seq=5, ack=0xfffffffe)))
                packet = self.request(front, cases.tcp(
                    flags='PA', ack=7, options=[('MSS', 1460)]))
                self.reset(packet / cases.payload(1000))
                self.assertEqual(0, self.compared.active(service))
                self.assertEqual(0, service.drops)
                self.compared.compare_counters()
                self.compared.delete_service(service)

    def test_unknown_connections_without_a_reset(self):
        self.use(cases.plain_node(icmp_rate=1000))
        service = self.nat_service()
        for flags in ('R', 'RA', 'F', 'P', ''):
            self.dropped(self.request(4, cases.tcp(flags=flags)),
                         Outcome.DROP_NO_NAT_FLOW)
        self.dropped(self.request(4, cases.tcp(flags='A'), flags='MF'),
                     Outcome.DROP_NO_NAT_FLOW)
        self.assertEqual(6, service.drops)
        self.assertEqual(0, self.compared.active(service))

    def test_a_drained_member_keeps_its_flows_and_a_dead_one_does_not(self):
        members = [state.Member(compared.packed(f'10.1.0.{number}'),
                                port=nat_cases.LOCAL) for number in (1, 2)]
        self.use(cases.plain_node(icmp_rate=1000))
        service = self.nat_service(members=members)
        for port in range(41000, 41016):
            self.sent(self.request(4, cases.tcp(flags='S', sport=port)))
        had = {port: self.sent(self.request(4, cases.tcp(sport=port))).dst
               for port in range(41000, 41016)}
        self.assertEqual({'10.1.0.1', '10.1.0.2'}, set(had.values()))
        drained = [state.Member(compared.packed(f'10.1.0.{number}'),
                                port=nat_cases.LOCAL, weight=number - 1)
                   for number in (1, 2)]
        self.compared.set_service(service, drained)
        for port, member in had.items():
            self.assertEqual(member, self.sent(self.request(
                4, cases.tcp(sport=port))).dst)
        self.assertEqual('10.1.0.2', self.sent(self.request(
            4, cases.tcp(flags='S', sport=42000))).dst)
        drained[0].healthy = False
        self.compared.set_health(drained)
        for port, member in had.items():
            packet = self.request(4, cases.tcp(sport=port))
            if member == '10.1.0.2':
                self.assertEqual(member, self.sent(packet).dst)
            else:
                self.reset(packet)

    def test_what_else_comes_to_a_pool(self):
        self.use(cases.plain_node(echo=True, icmp_rate=100))
        self.nat_service()
        to_pool = inet.IP(src=cases.CLIENT4, dst='203.0.113.2', ttl=9)
        self.dropped(cases.link() / to_pool / cases.tcp(),
                     Outcome.DROP_NO_NAT_FLOW)
        self.dropped(cases.link() / to_pool / cases.udp(dport=53),
                     Outcome.DROP_NO_NAT_FLOW)
        self.check(cases.link() / to_pool / inet.ICMP(id=7), Action.TX,
                   Outcome.ECHO_REPLY)
        self.passed(cases.link() / inet.IP(
            src=cases.CLIENT4, dst='203.0.113.2', proto=89) / b'12345678')
        self.passed(cases.link() / inet.IP(
            src=cases.CLIENT4, dst='203.0.113.4') / cases.tcp())
