# SPDX-License-Identifier: Apache-2.0
"""The configuration of a node: input of all decisions besides the packet.

Addresses are packed bytes of 4 or 16; `family` is 4 or 6.
"""

import dataclasses
import enum
import typing

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.tests.models.packet_model import allow
from octavia_xdp_provider.tests.models.packet_model import quic


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

    `gateway`: the next hop's MAC by outer family, None for a family that it
    does not carry. `sends_buffers`: its driver can send redirected frames of
    several buffers.
    """

    ifindex: int
    mtu: int
    own_mac: bytes
    gateway: dict[int, bytes | None]
    vlans: tuple[int, ...] = ()
    sends_buffers: bool = False

    def cannot_send(self, split: bool, action: Action) -> bool:
        """Whether the driver cannot send a redirected frame that is split."""
        return (split and action == Action.REDIRECT and
                not self.sends_buffers)

    def link(self, family: int) -> bytes | None:
        """Return the link header for outer packets of `family`."""
        gateway = self.gateway.get(family)
        if gateway is None:
            return None
        # The outer one of two tags is a service tag (802.1ad).
        types = ((), (b'\x81\x00',), (b'\x88\xa8', b'\x81\x00'))
        tags = b''.join(kind + tag.to_bytes(2, 'big') for kind, tag in
                        zip(types[len(self.vlans)], self.vlans, strict=True))
        ethertype = b'\x08\x00' if family == IPV4 else b'\x86\xdd'
        return gateway + self.own_mac + tags + ethertype


@dataclasses.dataclass
class Node:
    source: dict[int, bytes | None]
    entropy: dict[int, int]  # bits of the source filled from the flow's hash
    echo: bool = False
    clamp_mss: bool = False
    pass_too_big: bool = False
    icmp_rate: int = 0
    by_routes: bool = False  # use the kernel's routes instead of uplinks
    seed: int = 0
    flow_sets: int = 1
    idle_timeout_max: int = 65535  # age at which remembered flows expire
    uplinks: list[Uplink] = dataclasses.field(default_factory=list)
    # [family][top 6 bits of the entropy]: index into uplinks, or None
    choice: dict[int, list[int | None]] = dataclasses.field(
        default_factory=dict)

    def is_no_client(self, source: bytes, destination: bytes) -> bool:
        """Whether the source is a martian or one of the node's own."""
        family = IPV4 if len(source) == 4 else IPV6
        own, bits = self.source[family], self.entropy[family]
        return allow.martian(source, destination) or (
            own is not None and (int.from_bytes(source, 'big') >> bits ==
                                 int.from_bytes(own, 'big') >> bits))


class Tunnel(typing.NamedTuple):
    """How packets reach a member, instead of by its service's encapsulation to
    its own address. `key`: 0 if none; `keeps_port`: the member's port is not
    written; `takes_alternative`: its end accepts packets that name an
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
    takes_flows: bool = False  # as in the node's table
    # Replaces the service's port unless 0 or the tunnel keeps that.
    port: int = 0
    tunnel: Tunnel | None = None
    # Computed by Service.place().
    outer: bytes = b''
    encapsulation: Encapsulation = Encapsulation.IPIP
    key: int = 0
    # Bytes that an alternative adds to the outer header; 0: never has one.
    alternative: int = 0
    packets: int = 0
    bytes: int = 0
    flows: int = 0

    @property
    def name(self) -> tuple[bytes, int]:
        """Identifies the member within its service."""
        return self.address, self.port

    @property
    def written_port(self) -> int:
        """The port that replaces the service's; 0: none does."""
        return 0 if self.tunnel and self.tunnel.keeps_port else self.port

    @property
    def outer_type(self) -> tuple:
        """Form of the outer header; equal for interchangeable members."""
        return (self.encapsulation, len(self.outer), bool(self.written_port),
                self.alternative)

    @property
    def keeps_flows(self) -> bool:
        return self.admin_up and self.healthy


def label(member: Member, members: typing.Iterable[Member]
          ) -> tuple[bytes, int]:
    """Return a member's name in tables and server IDs: its address, and its
    port if the address has a member with a lower one, else 0."""
    lowest = min(other.port for other in members
                 if other.address == member.address)
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
    connection_limit: int = 0  # of NAT with TCP; 0: none
    sends_reset: bool = False  # to connections beyond the limit
    allowed: list[tuple[bytes, int]] | None = None
    # From the table: members by index, each slot's member for new flows, open
    # slots, the members before (with their own number of slots) and, with a
    # second chance, the slots for which those still count, open or not.
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
        """Compute the fields that derive from the configuration."""
        self.family = IPV4 if len(self.vip) == 4 else IPV6
        self.servers = {}
        for index, member in self.members.items():
            self._set_outer(member)
            self.servers[quic.server_id(*label(
                member, self.members.values()))] = index
        length = self.source_length[self.family]
        size = len(self.vip)
        self.source_mask = (((1 << length) - 1) << (8 * size - length)
                            ).to_bytes(size, 'big')
        self.networks = (None if self.allowed is None else
                         allow.Networks(self.allowed))

    def _set_outer(self, member: Member):
        """Set the destination and form of the member's outer header."""
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
