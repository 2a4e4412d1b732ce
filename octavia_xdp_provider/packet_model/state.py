# SPDX-License-Identifier: Apache-2.0
"""What a node is configured to: the input of every decision but the packet.

Addresses are packed bytes of 4 or 16; `family` is 4 or 6.
"""

import dataclasses
import enum
import typing

from octavia_xdp_provider.common import enumerations
from octavia_xdp_provider.packet_model import allow
from octavia_xdp_provider.packet_model import quic


class Action(enum.IntEnum):
    """enum xdp_action"""

    DROP = 1
    PASS = 2
    TX = 3
    REDIRECT = 4


Outcome = enumerations.Outcome
Encapsulation = enumerations.Encapsulation

IPV4 = 4
IPV6 = 6
ICMP = 1
TCP = 6
UDP = 17
ICMPV6 = 58
SCTP = 132
NOBODY = 0x7fff
ALTERNATIVE = {4: 12, 16: 24}  # bytes, by those of the outer address


@dataclasses.dataclass
class Uplink:
    """A route out of the node.

    `gateway`: the next hop's MAC by outer family; None: it carries nothing
    of that family. `sends_buffers`: its driver sends frames of several
    buffers that came in elsewhere.
    """

    ifindex: int
    mtu: int
    own_mac: bytes
    gateway: dict[int, bytes | None]
    vlans: tuple[int, ...] = ()
    sends_buffers: bool = False

    def cannot_send(self, split: bool, action: Action) -> bool:
        """A frame that is `split`, and came in elsewhere."""
        return (split and action == Action.REDIRECT and
                not self.sends_buffers)

    def link(self, family: int) -> bytes | None:
        """The link header of what leaves with an outer packet of `family`."""
        gateway = self.gateway.get(family)
        if gateway is None:
            return None
        # the outer one of two is a service tag, 802.1ad
        types = ((), (b'\x81\x00',), (b'\x88\xa8', b'\x81\x00'))
        tags = b''.join(kind + tag.to_bytes(2, 'big') for kind, tag in
                        zip(types[len(self.vlans)], self.vlans, strict=True))
        ethertype = b'\x08\x00' if family == IPV4 else b'\x86\xdd'
        return gateway + self.own_mac + tags + ethertype


@dataclasses.dataclass
class Node:
    source: dict[int, bytes | None]
    entropy: dict[int, int]  # bits of the source that the flow's hash takes
    echo: bool = False
    clamp_mss: bool = False
    pass_too_big: bool = False
    icmp_rate: int = 0
    by_routes: bool = False  # the kernel's routes decide, not the uplinks
    seed: int = 0
    flow_sets: int = 1
    idle_timeout_max: int = 65535  # when remembered flows are outdated
    uplinks: list[Uplink] = dataclasses.field(default_factory=list)
    # [family][top 6 bits of the entropy]: index into uplinks, or None
    choice: dict[int, list[int | None]] = dataclasses.field(
        default_factory=dict)

    def is_no_client(self, source: bytes, destination: bytes) -> bool:
        """Martians, and what the node itself sends from."""
        family = IPV4 if len(source) == 4 else IPV6
        own, bits = self.source[family], self.entropy[family]
        return allow.martian(source, destination) or (
            own is not None and (int.from_bytes(source, 'big') >> bits ==
                                 int.from_bytes(own, 'big') >> bits))


class Tunnel(typing.NamedTuple):
    """How packets get to a member, instead of by its service's encapsulation
    to its own address; key 0: none. `keeps_port`: the member's port is not
    written. `takes_alternative`: what is at its end takes packets that name an
    alternative."""

    address: bytes
    encapsulation: Encapsulation
    key: int = 0
    keeps_port: bool = False
    takes_alternative: bool = False


@dataclasses.dataclass(eq=False)
class Member:
    address: bytes
    weight: int = 1
    mtu: int = 0
    admin_up: bool = True
    healthy: bool = True
    backup: bool = False
    # as the node's table has it
    takes_flows: bool = False
    port: int = 0  # takes the place of the service's, unless the tunnel
    # keeps it; 0: that stays
    tunnel: Tunnel | None = None
    # computed by Service.place()
    outer: bytes = b''
    encapsulation: Encapsulation = Encapsulation.IPIP
    key: int = 0
    alternative: int = 0  # bytes by which an outer header that names one is
    # longer; 0: it never does
    packets: int = 0
    bytes: int = 0
    flows: int = 0

    @property
    def name(self) -> tuple[bytes, int]:
        """What distinguishes the members of a service."""
        return self.address, self.port

    @property
    def written_port(self) -> int:
        """Takes the place of the service's; 0: that stays."""
        return 0 if self.tunnel and self.tunnel.keeps_port else self.port

    @property
    def outer_type(self) -> tuple:
        """Members with the same one get packets of one form."""
        return (self.encapsulation, len(self.outer), bool(self.written_port),
                self.alternative)

    @property
    def keeps_flows(self) -> bool:
        return self.admin_up and self.healthy


def label(member: Member, members: typing.Iterable[Member]
          ) -> tuple[bytes, int]:
    """What a member is in tables and server IDs: its address, with its port
    if the address has a lower one."""
    lowest = min(one.port for one in members
                 if one.address == member.address)
    return member.address, member.port if member.port > lowest else 0


@dataclasses.dataclass(eq=False)
class Service:
    vip: bytes
    protocol: int
    port: int
    index: int = 0
    encapsulation: Encapsulation = Encapsulation.IPIP
    dscp: int = 0
    sid_function: int = 0
    by_source: bool = False
    quic: bool = False
    second_chance: bool = False
    nat: bool = False
    source_length: dict[int, int] = dataclasses.field(
        default_factory=lambda: {IPV4: 32, IPV6: 128})
    idle_timeout: int = 350
    new_flow_rate: int = 0
    new_flow_burst: int = 0
    connection_limit: int = 0  # NAT of TCP; 0: none
    sends_reset: bool = False  # to who is beyond it
    allowed: list[tuple[bytes, int]] | None = None
    # What only the table knows: members by their index, who takes new flows
    # of a slot, which slots are open, who had flows before, by a number of
    # slots of its own, and with a second chance in which slots that still
    # counts: those that are open, and others.
    members: dict[int, Member] = dataclasses.field(default_factory=dict)
    now: list[int] = dataclasses.field(default_factory=list)
    open: set[int] = dataclasses.field(default_factory=set)
    before: list[int] = dataclasses.field(default_factory=list)
    changed: set[int] = dataclasses.field(default_factory=set)
    learning: bool = False
    packets: int = 0
    bytes: int = 0
    flows: int = 0
    drops: int = 0
    reply_packets: int = 0
    reply_bytes: int = 0

    def place(self):
        """Derive what packets need from what was configured."""
        self.family = IPV4 if len(self.vip) == 4 else IPV6
        self.servers = {}
        for index, member in self.members.items():
            self._find_way(member)
            self.servers[quic.server_id(*label(
                member, self.members.values()))] = index
        length = self.source_length[self.family]
        size = len(self.vip)
        self.source_mask = (((1 << length) - 1) << (8 * size - length)
                            ).to_bytes(size, 'big')
        self.networks = (None if self.allowed is None else
                         allow.Networks(self.allowed))

    def _find_way(self, member: Member):
        """Where the outer header leads, and what it is."""
        tunnel = member.tunnel or Tunnel(member.address, self.encapsulation)
        member.encapsulation, member.key = tunnel.encapsulation, tunnel.key
        member.outer = tunnel.address
        member.alternative = 0
        if self.second_chance and (not member.tunnel or
                                   member.tunnel.takes_alternative):
            member.alternative = ALTERNATIVE[len(tunnel.address)]
        if tunnel.encapsulation == Encapsulation.SRV6:
            if tunnel.key:
                member.outer = (tunnel.address[:12] +
                                tunnel.key.to_bytes(4, 'big'))
            elif self.sid_function and not member.tunnel:
                member.outer = (tunnel.address[:14] +
                                self.sid_function.to_bytes(2, 'big'))
