# SPDX-License-Identifier: Apache-2.0
"""Nodes that hand packets of NAT on to each other: "Peers" of
contributor/nat.rst.
"""

import enum
import struct
import typing

from octavia_xdp_provider.packet_model import encap
from octavia_xdp_provider.packet_model import nat
from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state

KEY_FLAG, MAGIC = 0x2000, 0x4f58
GRE = struct.Struct('!HHHBB')  # flags, Ethertype; magic, kind and hops: key
HOPS_MAX, TTL = 32, 64
ETHERTYPE = {state.IPV4: 0x0800, state.IPV6: 0x86dd}


class Kind(enum.IntEnum):
    SEEK = 1  # for the owner, who sends it back: FOUND
    FOUND = 2  # to the origin, from the owner
    OWNED = 3  # from the origin, to the owner that it knows
    LOST = 4  # to the origin, from who is not the owner
    NOBODY = 5  # to the origin, when all have been asked


class Handed(typing.NamedTuple):
    """What the outer headers say. `origin`: the outer source."""

    kind: Kind
    hops: int
    origin: bytes
    length: int  # of the outer headers


class Onward(typing.NamedTuple):
    kind: Kind
    hops: int
    source: bytes
    target: bytes


class Peers:
    """What one node knows: all nodes' addresses, its own among them."""

    def __init__(self, addresses: typing.Sequence[bytes] = (),
                 own: bytes = b''):
        self.addresses = list(addresses)
        self.own = own
        self.seek_udp_until = 0  # Units of the coarse clock.
        self._owners: dict[tuple, bytes] = {}
        # Of first fragments that went to the owner: (place, entropy).
        self._fragments: dict[tuple, tuple[int, int]] = {}

    def __bool__(self):
        return len(self.addresses) > 1 and self.own in self.addresses

    @property
    def overhead(self) -> int:
        """Bytes that a packet is longer on its way to another node."""
        return (nat.HEADER[nat.family_of(nat.End(self.own, 0))] + GRE.size
                if self else 0)

    @property
    def next(self) -> bytes:
        place = self.addresses.index(self.own) + 1
        return self.addresses[place % len(self.addresses)]

    def is_outer(self, packet: parse.Packet) -> bool:
        """Whether a packet to a pool may be one that is handed on."""
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
        """None: not from a peer, or it went round for too long."""
        _, _, _, kind, hops = GRE.unpack_from(packet.frame, packet.transport)
        if (packet.source not in self.addresses or
                packet.source == self.own or kind not in list(Kind) or
                hops >= HOPS_MAX):
            return None
        return Handed(Kind(kind), hops, packet.source,
                      packet.transport + GRE.size - packet.network)

    @staticmethod
    def inside(packet: parse.Packet, handed: Handed) -> bytes:
        """The frame as if it had come without the outer headers."""
        family = struct.unpack_from('!H', packet.frame,
                                    packet.transport + 2)[0]
        return (packet.frame[:packet.network - 2] +
                family.to_bytes(2, 'big') +
                packet.frame[packet.network + handed.length:])

    def onward(self, key: tuple | None, handed: Handed | None,
               seeks: bool) -> Onward | None:
        """Where a packet goes whose flow is not here; None: nowhere else.
        `key`: of the client's flow, None of an ICMP error; `seeks`: this
        node may begin to ask others for it.
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
        """After a first fragment. `entropy`: of its uplink."""
        self._fragments[key] = self.addresses.index(target), entropy

    def forget(self, key: tuple):
        """Another packet's fragments have its key."""
        self._fragments.pop(key, None)

    def follows(self, key: tuple) -> bool:
        return key in self._fragments

    def follow(self, key: tuple) -> tuple[Onward, int] | None:
        """(where a later fragment goes, entropy); None: its first one went to
        a peer that is none any more.
        """
        place, entropy = self._fragments[key]
        if (not self or place >= len(self.addresses) or
                self.addresses[place] == self.own):
            return None
        return Onward(Kind.OWNED, 1, self.own, self.addresses[place]), entropy

    def back(self, handed: Handed) -> Onward:
        """A flow that was sought is here: its origin is to know."""
        return Onward(Kind.FOUND, handed.hops + 1, self.own, handed.origin)


def wrapped(packet: parse.Packet, onward: Onward) -> bytes:
    """What leaves, without the link header, and without padding."""
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
