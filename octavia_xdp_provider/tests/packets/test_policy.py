# SPDX-License-Identifier: Apache-2.0
"""Allowed networks, limits of new flows, and the choice of a member."""

import ipaddress
import random

from scapy.layers import sctp
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import quic
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support.cases import Outcome


def networks(*texts: str):
    parsed = []
    for text in texts:
        address, length = text.split('/')
        parsed.append((compared.packed(address), int(length)))
    return parsed


def members(count: int, **changes) -> list[state.Member]:
    return [state.Member(compared.packed(f'10.1.0.{index + 1}'), **changes)
            for index in range(count)]


class TestAllowed(cases.PacketCase):

    def test_only_allowed_networks_are_forwarded(self):
        four = networks('198.51.100.0/25', '203.0.113.7/32')
        six = networks('2001:db8:c::/48', '2001:db8:d::5/128')
        self.service(allowed=four + six)
        self.service(cases.VIP6, allowed=four + six)
        for client, good in (
                ('198.51.100.0', True), ('198.51.100.127', True),
                ('198.51.100.128', False), ('203.0.113.7', True),
                ('203.0.113.6', False), ('2001:db8:c::1', True),
                ('2001:db8:c:ffff::', True), ('2001:db8:d::5', True),
                ('2001:db8:d::4', False), ('2001:db8:b:ffff::', False)):
            make = cases.ip4 if '.' in client else cases.ip6
            for flags in ('S', 'A', 'R'):
                packet = cases.link() / make(src=client) / cases.tcp(
                    flags=flags)
                if good:
                    self.forwarded(packet)
                else:
                    self.dropped(packet, Outcome.DROP_NOT_ALLOWED)

    def test_networks_of_length_zero_allow_everybody(self):
        self.service(allowed=networks('0.0.0.0/0', '::/0'))
        self.forwarded(cases.link() / cases.ip4() / cases.tcp())

    def test_edges_of_many_networks_are_those_of_an_independent_list(self):
        chosen = random.Random(7)
        for version, vip, most in ((4, cases.VIP4, 40), (6, cases.VIP6, 40),
                                   (4, cases.VIP4, 1024)):
            for _ in range(3):
                self.compare_edges(chosen, version, vip, most)

    def compare_edges(self, chosen, version, vip, most):
        bits = 32 if version == 4 else 128
        kind = (ipaddress.IPv4Network if version == 4
                else ipaddress.IPv6Network)
        # Close together, so that many touch or contain each other.
        base = int(ipaddress.ip_address(
            '198.51.100.0' if version == 4 else '2001:db8:c::'))
        allowed = [kind((base + (chosen.getrandbits(12) << 4),
                         bits - chosen.randrange(9)), strict=False)
                   for _ in range(chosen.randrange(1, most))]
        self.service(vip, allowed=networks(*map(str, allowed)))
        edges = {int(edge) + step for network in allowed for edge in (
            network[0], network[-1]) for step in (-1, 0, 1)}
        for address in chosen.sample(sorted(edges), min(len(edges), 150)):
            client = kind((address, bits))[0]
            make = cases.ip4 if version == 4 else cases.ip6
            packet = cases.link() / make(src=str(client)) / cases.tcp()
            if any(client in network for network in allowed):
                self.forwarded(packet)
            else:
                self.dropped(packet, Outcome.DROP_NOT_ALLOWED)

    def test_first_and_last_address_are_found(self):
        for text, good, bad in (
                ('255.255.255.255/32', [], ['198.51.100.1']),
                ('128.0.0.0/1', ['198.51.100.1'], ['12.0.0.1']),
                ('0.0.0.0/1', ['12.0.0.1'], ['198.51.100.1']),
                ('0.0.0.0/32', [], ['12.0.0.1', '198.51.100.1'])):
            self.service(allowed=networks(text))
            for client in good + bad:
                packet = (cases.link() / cases.ip4(src=client) /
                          cases.tcp())
                if client in good:
                    self.forwarded(packet)
                else:
                    self.dropped(packet, Outcome.DROP_NOT_ALLOWED)


class TestRate(cases.PacketCase):

    def batch(self, packets):
        frames = [bytes(cases.link() / packet) for packet in packets]
        while not (results := self.compared.run(frames)):
            pass
        return [result.outcome == Outcome.FORWARDED for result in results]

    def test_tcp_takes_tokens_for_opening_packets_only(self):
        """Only what opens flows takes tokens."""
        self.service(new_flow_rate=1, new_flow_burst=3)
        syn = [cases.ip4() / cases.tcp(flags='S', sport=port)
               for port in range(1, 6)]
        self.assertEqual([True] * 3 + [False] * 2, self.batch(syn))
        other = [cases.ip4() / cases.tcp(flags=flags)
                 for flags in ('A', 'SA', 'R', 'F', 'SR', 'SF')] * 2
        self.assertEqual([True] * 12, self.batch(other))

    def test_each_source_has_its_own_tokens(self):
        self.service(new_flow_rate=2)
        self.assertEqual(
            [True, True, True, True, False, False], self.batch(
                [cases.ip4(src=f'198.51.100.{client}') /
                 cases.tcp(flags='S')
                 for client in (1, 2, 1, 2, 1, 2)]))

    def test_ipv6_sources_share_tokens_by_64_bits(self):
        self.service(cases.VIP6, new_flow_rate=1)
        self.assertEqual(
            [True, False, True], self.batch(
                [cases.ip6(src=client) / cases.tcp(flags='S')
                 for client in ('2001:db8:c::1', '2001:db8:c::2:1',
                                '2001:db8:c:1::1')]))

    def test_each_service_has_its_own_tokens(self):
        self.service(new_flow_rate=1)
        self.service(port=443, new_flow_rate=1)
        self.service(port=444)
        self.assertEqual(
            [True, True, True, True, False, False], self.batch(
                [cases.ip4() / cases.tcp(flags='S', dport=port)
                 for port in (80, 443, 444, 444, 80, 443)]))

    def test_udp_takes_for_each_packet(self):
        self.service(protocol=state.UDP, new_flow_rate=1, new_flow_burst=2)
        later = cases.ip4(frag=5, proto=17, id=9) / cases.payload(32)
        self.assertEqual(
            [True, True, False, True], self.batch(
                [cases.ip4() / cases.udp(), cases.ip4() / cases.udp(),
                 cases.ip4() / cases.udp(), later]))

    def test_sctp_takes_tokens_for_init_only(self):
        self.service(protocol=state.SCTP, new_flow_rate=1)
        data = (sctp.SCTP(sport=40000, dport=cases.PORT) /
                sctp.SCTPChunkData(data=b'1234'))
        self.assertEqual(
            [True, False, True], self.batch(
                [cases.ip4() / cases.sctp_init(),
                 cases.ip4() / cases.sctp_init(), cases.ip4() / data]))


class TestSelection(cases.PacketCase):

    def test_packets_without_eligible_member_are_dropped(self):
        for wanted in ([], members(2, weight=0), members(2, admin_up=False),
                       members(2, healthy=False)):
            service = self.service(members=wanted)
            self.dropped(cases.link() / cases.ip4() / cases.tcp(),
                         Outcome.DROP_NO_MEMBER)
            self.compared.delete_service(service)

    def test_addresses_of_a_multihomed_client_share_a_member(self):
        """SCTP endpoints in one prefix have one member: for any of the
        association's packets, from any of its addresses."""
        service = self.service(protocol=state.SCTP, members=members(8),
                               by_source=True,
                               source_length={4: 24, 6: 64})
        heartbeat = (sctp.SCTP(sport=40000, dport=cases.PORT, tag=7) /
                     sctp.SCTPChunkHeartbeatAck())
        seen = set()
        for net in range(20):
            first, other = (cases.ip4(src=f'198.18.{net}.{host}')
                            for host in (1, 200))
            chosen = {
                self.forwarded(cases.link() / packet).member
                for packet in (first / cases.sctp_init(),
                               first / heartbeat, other / heartbeat)}
            self.assertEqual(1, len(chosen))
            seen |= chosen
        self.assertGreater(len(seen), 4)
        self.compared.delete_service(service)


class TestQuic(cases.PacketCase):

    def setUp(self):
        super().setUp()
        self.wanted = members(8)
        self.quic = self.service(protocol=state.UDP, members=self.wanted,
                                 quic=True)

    def address(self, data: bytes, port: int = 40000, client=cases.CLIENT4):
        result = self.forwarded(
            cases.link() / cases.ip4(src=client) / cases.udp(sport=port) /
            Raw(data))
        return self.quic.members[result.member].address

    def connection(self, member: state.Member, first: int = 0x1f) -> bytes:
        return bytes((first,)) + quic.server_id(member.address)

    def short(self, connection: bytes) -> bytes:
        return b'\x41' + connection + b'encrypted'

    def long(self, kind: int, connection: bytes, version: int = 1) -> bytes:
        return (bytes((0xc0 | kind << 4,)) + version.to_bytes(4, 'big') +
                bytes((len(connection),)) + connection + b'\0' + bytes(20))

    def test_server_ids_are_the_librarys(self):
        for member in self.compared.datapath.members(self.quic):
            self.assertEqual(
                quic.server_id(bytes(member.address.bytes)[12:]),
                member.quic_server_id.to_bytes(4, 'big'))

    def test_server_id_is_crc32c_as_in_rfc_3720(self):
        """RFC 3720, B.4: 32 bytes of zeroes."""
        self.assertEqual('8a9136aa', quic.server_id(bytes(32)).hex())

    def test_connection_stays_with_its_member_when_the_client_moves(self):
        for member in self.wanted:
            for port in (1, 2, 3):
                for client in (cases.CLIENT4, '203.0.113.77'):
                    for make in (self.short,
                                 lambda server_id: self.long(2, server_id)):
                        self.assertEqual(
                            member.address,
                            self.address(make(self.connection(member)), port,
                                         client))

    def test_unknown_connection_ids_go_by_addresses(self):
        """Not ours: other rotation, unknown server, too short, no bits."""
        plain = [self.address(b'', port) for port in range(1, 9)]
        member = self.wanted[0]
        ours = self.connection(member)
        for data in (self.short(self.connection(member, 0x20)),
                     self.short(self.connection(member, 0xe0)),
                     self.short(b'\0none'), b'\x41' + ours[:4],
                     b'\x01' + ours + b'data', self.long(2, ours[:4]),
                     self.long(2, ours)[:10], b'\x41', b'\xc0'):
            self.assertEqual(plain, [self.address(data, port)
                                     for port in range(1, 9)])

    def test_shortest_packets_with_a_whole_connection_id_are_read(self):
        member = self.wanted[3]
        connection = self.connection(member)
        for port in range(1, 9):
            for data in (b'\x40' + connection,
                         self.long(2, connection)[:11]):
                self.assertEqual(member.address, self.address(data, port))

    def test_connection_leaves_a_member_that_is_down(self):
        member = self.wanted[0]
        member.healthy = False
        self.compared.set_health([member])
        data = self.short(self.connection(member))
        self.assertNotEqual(member.address, self.address(data))

    def test_drained_member_keeps_connections(self):
        member = self.wanted[0]
        member.weight = 0
        self.compared.set_service(self.quic, self.wanted)
        data = self.short(self.connection(member))
        for port in range(1, 9):
            self.assertEqual(member.address, self.address(data, port))

    def test_initials_are_counted_as_flows(self):
        for version, kind, counts in ((1, 0, True), (1, 1, False),
                                      (1, 2, False), (0x6b3343cf, 1, True),
                                      (0x6b3343cf, 0, False), (0, 0, False),
                                      (0xff00001d, 0, True)):
            before = self.quic.flows
            self.address(self.long(kind, b'12345678', version))
            self.assertEqual(counts, self.quic.flows > before)
        self.compared.compare_counters()

    def test_connection_ids_count_in_quic_services_only(self):
        plain = self.service(protocol=state.UDP, members=members(8),
                             port=443)
        seen = set()
        for port in range(1, 60):
            result = self.forwarded(
                cases.link() / cases.ip4() /
                cases.udp(sport=port, dport=443) /
                Raw(self.short(self.connection(self.wanted[0]))))
            seen.add(plain.members[result.member].address)
        self.assertGreater(len(seen), 4)
