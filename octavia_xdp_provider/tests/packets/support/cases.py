# SPDX-License-Identifier: Apache-2.0
"""Support for packet tests: a node, and expectations built with scapy.

What a test expects comes from scapy and the test's own text. The model runs
along and has to agree.
"""

import unittest

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.layers import sctp
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import environment

Action = state.Action
Encapsulation = state.Encapsulation
Outcome = state.Outcome

NODE_MAC, ROUTER_MAC = '02:00:00:00:00:01', '02:00:00:00:00:03'
GATEWAY4_MAC, GATEWAY6_MAC = '02:00:00:00:00:04', '02:00:00:00:00:06'
NODE4, NODE6 = '10.0.0.1', 'fd00::1'
VIP4, VIP6 = '192.0.2.1', '2001:db8::1'
CLIENT4, CLIENT6 = '198.51.100.7', '2001:db8:c::7'
MEMBER4, MEMBER6 = '10.1.0.1', 'fd00:1::1'
OTHER4, OTHER6 = '192.0.2.99', '2001:db8::99'
PORT = 80
MTU = 1500

_shared: compared.Compared | None = None


def mac(value: str) -> bytes:
    return bytes.fromhex(value.replace(':', ''))


def uplink(**changes) -> state.Uplink:
    return state.Uplink(**{
        'ifindex': environment.LOOPBACK, 'mtu': MTU,
        'own_mac': mac(NODE_MAC),
        'gateway': {4: mac(GATEWAY4_MAC), 6: mac(GATEWAY6_MAC)}, **changes})


def plain_node(**changes) -> state.Node:
    return state.Node(**{
        'source': {4: compared.packed(NODE4), 6: compared.packed(NODE6)},
        'entropy': {4: 0, 6: 0}, 'uplinks': [uplink()], **changes})


def shared() -> compared.Compared:
    """The program is loaded once for all tests of the process."""
    global _shared
    if _shared is None:
        _shared = compared.Compared(plain_node(), flows_max=64)
    return _shared


def link(*vlans: int) -> l2.Ether:
    """The link header of what clients send."""
    packet = l2.Ether(dst=NODE_MAC, src=ROUTER_MAC)
    for vlan in vlans:
        packet /= l2.Dot1Q(vlan=vlan)
    return packet


def ip4(**fields) -> inet.IP:
    return inet.IP(**{'src': CLIENT4, 'dst': VIP4, 'id': 0x1234, 'ttl': 57,
                      **fields})


def ip6(**fields) -> inet6.IPv6:
    return inet6.IPv6(**{'src': CLIENT6, 'dst': VIP6, 'hlim': 57, **fields})


def tcp(**fields) -> inet.TCP:
    return inet.TCP(**{'sport': 40000, 'dport': PORT, 'flags': 'A',
                       'seq': 1, 'ack': 1, **fields})


def udp(**fields) -> inet.UDP:
    return inet.UDP(**{'sport': 40000, 'dport': PORT, **fields})


def sctp_init(**fields):
    return (sctp.SCTP(sport=40000, dport=PORT) /
            sctp.SCTPChunkInit(**{'init_tag': 1, **fields}))


def payload(length: int) -> Raw:
    return Raw(bytes(index * 7 & 0xff for index in range(length)))


def outer4(inner, member: str = MEMBER4, **fields):
    """Link header and outer IPv4 header as forwarding.rst words them."""
    if isinstance(inner, inet.IP):
        values = {'tos': inner.tos, 'id': inner.id,
                  'flags': int(inner.flags) & 2, 'proto': 4}
    else:
        values = {'tos': inner.tc, 'id': 0, 'flags': 'DF', 'proto': 41}
    return (l2.Ether(dst=GATEWAY4_MAC, src=NODE_MAC, type=0x0800) /
            inet.IP(**{'src': NODE4, 'dst': member, 'ttl': 64, **values,
                       **fields}))


def outer6(inner, member: str = MEMBER6, flow: int = 0, **fields):
    tos, header = ((inner.tos, 4) if isinstance(inner, inet.IP) else
                   (inner.tc, 41))
    return (l2.Ether(dst=GATEWAY6_MAC, src=NODE_MAC, type=0x86dd) /
            inet6.IPv6(**{'src': NODE6, 'dst': member, 'hlim': 64, 'tc': tos,
                          'nh': header, 'fl': flow, **fields}))


class PacketCase(unittest.TestCase):
    """Starts with a node that has one uplink and no services."""

    maxDiff = None
    pools: tuple[tuple[bytes, int], ...] = ()  # of NAT
    peers: tuple[bytes, ...] = ()

    def setUp(self):
        super().setUp()
        self.compared = shared()
        if self.compared.pools != list(self.pools):
            self.compared.set_pools(list(self.pools))
        if self.compared.peers != self.peers:
            self.compared.set_peers(self.peers)
        self.use(plain_node())

    def use(self, node: state.Node):
        self.node = node
        self.compared.reset(node)

    def service(self, vip: str = VIP4, protocol: int = state.TCP,
                members=None, port: int = PORT, **options) -> state.Service:
        """`members`: addresses or state.Member; by default one of the VIP's
        family."""
        service = state.Service(compared.packed(vip), protocol, port,
                                **options)
        if members is None:
            members = [MEMBER4 if '.' in vip else MEMBER6]
        members = [member if isinstance(member, state.Member) else
                   state.Member(compared.packed(member)) for member in members]
        self.compared.set_service(service, members)
        return service

    def run_one(self, packet):
        """Through program and model; the model's word on what happened."""
        while True:
            results = self.compared.run([bytes(packet)])
            if results:
                return results[0]

    def check(self, packet, action: Action, outcome: Outcome,
              expected=None, remarks=()):
        result = self.run_one(packet)
        self.assertEqual((outcome, action, tuple(remarks)),
                         (result.outcome, result.action, result.remarks))
        if expected is not None:
            self.assertEqual(bytes(expected).hex(), result.frame.hex())
        return result

    def passed(self, packet):
        return self.check(packet, Action.PASS, Outcome.PASS, packet)

    def dropped(self, packet, outcome: Outcome, remarks=()):
        return self.check(packet, Action.DROP, outcome, remarks=remarks)

    def forwarded(self, packet, expected=None, remarks=()):
        return self.check(packet, Action.TX, Outcome.FORWARDED, expected,
                          remarks)
