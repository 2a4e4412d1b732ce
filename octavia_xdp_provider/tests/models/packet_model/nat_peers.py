# SPDX-License-Identifier: Apache-2.0
"""Nodes that hand on packets of NAT to each other ("Peers" in
contributor/nat.rst).
"""

import enum
import struct
import typing

from octavia_xdp_provider.tests.models.packet_model import encap
from octavia_xdp_provider.tests.models.packet_model import nat
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state

KEY_FLAG, MAGIC = 0x2000, 0x4f58
GRE = struct.Struct('!HHHBB')  # flags, Ethertype; magic, kind and hops: key
HOPS_MAX, TTL = 32, 64
ETHERTYPE = {state.IPV4: 0x0800, state.IPV6: 0x86dd}


class Kind(enum.IntEnum):
    SEEK = 1  # from node to node; the owner returns it as FOUND
    FOUND = 2  # from the owner to the origin
    OWNED = 3  # from the origin to the owner that it knows
    LOST = 4  # to the origin, from a node that is no longer the owner
    NOBODY = 5  # to the origin after all nodes have been asked


class Handed(typing.NamedTuple):
    """The contents of the outer headers. `origin`: the outer source."""

    kind: Kind
    hops: int
    origin: bytes
    length: int  # bytes of the outer headers


class Onward(typing.NamedTuple):
    kind: Kind
    hops: int
    source: bytes
    target: bytes


class Peers:
    """The peers as one node knows them: addresses of all nodes and owners of
    flows."""

    def __init__(self, addresses: typing.Sequence[bytes] = (),
                 own: bytes = b''):
        self.addresses = list(addresses)
        self.own = own
        self.seek_udp_until = 0  # units of the coarse clock
        self._owners: dict[tuple, bytes] = {}
        # First fragments sent to the owner: (index of its address, entropy).
        self._fragments: dict[tuple, tuple[int, int]] = {}

    def __bool__(self):
        return len(self.addresses) > 1 and self.own in self.addresses

    @property
    def overhead(self) -> int:
        """Bytes by which packets grow on the way to another node."""
        return (nat.HEADER[nat.family_of(nat.End(self.own, 0))] + GRE.size
                if self else 0)

    @property
    def next(self) -> bytes:
        place = self.addresses.index(self.own) + 1
        return self.addresses[place % len(self.addresses)]

    def is_outer(self, packet: parse.Packet) -> bool:
        """Whether a packet to a pool looks as if handed on by a peer."""
        at = packet.transport
        if (not self or packet.protocol != encap.GRE or packet.first or
                packet.later or
                at - packet.network != nat.HEADER[packet.family] or
                at + GRE.size > packet.end):
            return False
        flags, kind, magic, _, _ = GRE.unpack_from(packet.frame, at)
        return (flags == KEY_FLAG and magic == MAGIC and
                kind in ETHERTYPE.values())

    def read(self, packet: parse.Packet) -> Handed | None:
        """Parse outer headers; None: not from a peer, or too many hops."""
        _, _, _, kind, hops = GRE.unpack_from(packet.frame, packet.transport)
        if (packet.source not in self.addresses or
                packet.source == self.own or kind not in list(Kind) or
                hops >= HOPS_MAX):
            return None
        return Handed(Kind(kind), hops, packet.source,
                      packet.transport + GRE.size - packet.network)

    @staticmethod
    def inside(packet: parse.Packet, handed: Handed) -> bytes:
        """Return the frame without the outer headers."""
        family = struct.unpack_from('!H', packet.frame,
                                    packet.transport + 2)[0]
        return (packet.frame[:packet.network - 2] +
                family.to_bytes(2, 'big') +
                packet.frame[packet.network + handed.length:])

    def onward(self, key: tuple | None, handed: Handed | None,
               seeks: bool) -> Onward | None:
        """Return where to send a packet of an unknown flow; None: nowhere.
        `key`: the client's flow, None for an ICMP error; `seeks`: whether
        this node may start asking others.
        """
        if handed is None or handed.kind == Kind.LOST:
            return self._from_origin(key, handed, seeks)
        if handed.kind == Kind.NOBODY:
            return None
        if handed.kind == Kind.FOUND:
            if key is not None:
                self._owners[key] = handed.origin
            return Onward(Kind.OWNED, handed.hops + 1, self.own,
                          handed.origin)
        if handed.kind == Kind.OWNED:
            return Onward(Kind.LOST, handed.hops + 1, self.own,
                          handed.origin)
        if self.next == handed.origin:
            return Onward(Kind.NOBODY, handed.hops + 1, self.own,
                          handed.origin)
        return Onward(Kind.SEEK, handed.hops + 1, handed.origin, self.next)

    def _from_origin(self, key, handed, seeks: bool) -> Onward | None:
        hops = 1
        if handed is not None:
            hops += handed.hops
            self._owners.pop(key, None)
        owner = self._owners.get(key)
        if owner in self.addresses and owner != self.own:
            return Onward(Kind.OWNED, hops, self.own, owner)
        return (Onward(Kind.SEEK, hops, self.own, self.next) if seeks
                else None)

    def leave(self, key: tuple, target: bytes, entropy: int):
        """Record a first fragment's target and its uplink's entropy."""
        self._fragments[key] = self.addresses.index(target), entropy

    def forget(self, key: tuple):
        """Drop the record: another packet's fragments reuse its key."""
        self._fragments.pop(key, None)

    def follows(self, key: tuple) -> bool:
        return key in self._fragments

    def follow(self, key: tuple) -> tuple[Onward, int] | None:
        """Return (where to send a later fragment, entropy); None: its first
        one went to a node that is no longer a peer.
        """
        place, entropy = self._fragments[key]
        if (not self or place >= len(self.addresses) or
                self.addresses[place] == self.own):
            return None
        return Onward(Kind.OWNED, 1, self.own, self.addresses[place]), entropy

    def back(self, handed: Handed) -> Onward:
        """Return where to send a packet that was sought and found here."""
        return Onward(Kind.FOUND, handed.hops + 1, self.own, handed.origin)


def wrapped(packet: parse.Packet, onward: Onward) -> bytes:
    """Return the encapsulated packet, without link header and padding."""
    inner = packet.frame[packet.network:packet.end]
    gre = GRE.pack(KEY_FLAG, ETHERTYPE[packet.family], MAGIC,
                   onward.kind, onward.hops)
    if packet.family == state.IPV4:
        tos = inner[1]
    else:
        tos = struct.unpack_from('!H', inner)[0] >> 4 & 0xff
    source, target = nat.End(onward.source, 0), nat.End(onward.target, 0)
    length = len(gre) + len(inner)
    if nat.family_of(source) == state.IPV6:
        header = nat.ipv6(tos & 0xfc, TTL, encap.GRE, source, target, length)
    else:
        header = nat.ipv4(tos & 0xfc, TTL, encap.GRE, source, target, length,
                          whole=True)
    return header + gre + inner
