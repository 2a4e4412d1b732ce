# SPDX-License-Identifier: Apache-2.0
"""Members with tunnels of their own: named by one address, reached at
another."""

from scapy.layers import inet

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support.cases import Encapsulation
from octavia_xdp_provider.tests.packets.support.cases import outer4
from octavia_xdp_provider.tests.packets.support.cases import outer6
from octavia_xdp_provider.tests.packets.support.encapsulated import carried
from octavia_xdp_provider.tests.packets.support.encapsulated import entropy_of
from octavia_xdp_provider.tests.packets.support.encapsulated import INNER
from octavia_xdp_provider.tests.packets.support.encapsulated import rebuilt

HOST4, HOST6 = '10.9.0.1', 'fd00:9::1'
PREFIX = 'fd00:9:0:1::'


def tunnel(address, encapsulation, key=0):
    return state.Tunnel(cases.compared.packed(address), encapsulation, key)


def member(own, address=cases.MEMBER4, **fields):
    return state.Member(cases.compared.packed(address), tunnel=own, **fields)


class TestTunnels(cases.PacketCase):

    def expect(self, inner, own, leaves, **options):
        """The packet leaves so for a member with this tunnel."""
        service = self.service(inner.dst, members=[member(own)], **options)
        self.forwarded(cases.link() / inner, leaves)
        self.compared.delete_service(service)

    def each(self):
        for make in INNER:
            yield rebuilt(make() / cases.tcp() / cases.payload(33))

    def test_geneve_carries_the_key_in_both_families(self):
        for inner in self.each():
            for host, outer in ((HOST4, outer4), (HOST6, outer6)):
                for key in (0, 1, 0xabcdef, 0xffffff):
                    self.expect(
                        inner, tunnel(host, Encapsulation.GENEVE, key),
                        carried(inner, state.TCP, Encapsulation.GENEVE, outer,
                                key, member=host))

    def test_srv6_ends_with_the_key(self):
        for inner in self.each():
            flow = entropy_of(inner, state.TCP) & 0xfffff
            for key, sid in ((0, PREFIX), (1, PREFIX + '1'),
                             (0xfedc1234, PREFIX + 'fedc:1234')):
                self.expect(inner, tunnel(PREFIX, Encapsulation.SRV6, key),
                            outer6(inner, sid, flow=flow) / inner)

    def test_a_services_function_is_no_part_of_a_tunnels_sid(self):
        for inner in self.each():
            flow = entropy_of(inner, state.TCP) & 0xfffff
            self.expect(inner, tunnel(HOST6, Encapsulation.SRV6),
                        outer6(inner, HOST6, flow=flow) / inner,
                        encapsulation=Encapsulation.SRV6, sid_function=0xd4)

    def test_a_port_is_written_inside_a_tunnel(self):
        inner = rebuilt(cases.ip4() / cases.tcp())
        own = tunnel(HOST4, Encapsulation.GENEVE, 5)
        self.service(members=[member(own, port=8080)])
        left = inner.copy()
        left[inet.TCP].dport = 8080
        del left[inet.TCP].chksum
        left = rebuilt(left)
        # entropy is that of the packet as it came
        expected = carried(inner, state.TCP, Encapsulation.GENEVE, outer4, 5,
                           member=HOST4)
        self.forwarded(cases.link() / inner, bytes(expected)[
            :-len(bytes(inner))] + bytes(left))

    def test_a_port_that_the_tunnel_keeps_is_not_written(self):
        """Two members of one address, told from each other by their ports."""
        members = [member(state.Tunnel(
            cases.compared.packed(HOST4), Encapsulation.GENEVE, port, True),
            port=port) for port in (8080, 8081)]
        service = self.service(members=members)
        frames = [bytes(cases.link() / cases.ip4() / cases.tcp(sport=port))
                  for port in range(1024, 1056)]
        results = self.compared.run(frames)
        for frame, result in zip(frames, results, strict=True):
            self.assertEqual(frame[14:], result.frame[14 + 36:])
            self.assertEqual(
                service.members[result.member].port,
                int.from_bytes(result.frame[14 + 32:14 + 35], 'big'))
        self.assertEqual(2, len({result.member for result in results}))
