# SPDX-License-Identifier: Apache-2.0
"""Connections of services with a limit, as far as a node sees them."""

import dataclasses
import struct

from octavia_xdp_provider.packet_model import checksum
from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state

# Units of time.
OPENING_AGE = 10
CLOSED_AGE = 30
IDLE_MAX = 16000
FIN, SYN, RST, ACK = 1, 2, 4, 16
TTL = 64


@dataclasses.dataclass
class Connection:
    seen: int
    confirmed: bool = False
    closed: bool = False


class Connections:
    """Of all services, without a bound: places never compete."""

    def __init__(self):
        self.known: dict[tuple, Connection] = {}

    def forget(self, service: state.Service):
        """All connections of a service that is gone, or has a limit anew."""
        self.known = {name: one for name, one in self.known.items()
                      if name[0] != service.index}

    def open(self, service: state.Service) -> int:
        return sum(not one.closed for name, one in self.known.items()
                   if name[0] == service.index)

    def follow(self, service: state.Service, packet: parse.Packet,
               opens: bool, time: int) -> bool:
        """Whether the packet's connection may go on."""
        at = packet.transport
        name = (service.index, packet.source, packet.frame[at:at + 2])
        ends = not opens and packet.frame[at + 13] & (FIN | RST)
        known = self.known.get(name)
        if known is not None and self._is_over(service, known, time):
            known = None
        if known is None and ends:
            return True
        if (opens and (known is None or known.closed) and
                self.open(service) >= service.connection_limit):
            return False
        if known is None:
            self.known[name] = Connection(time)
        elif ends:
            if not known.closed:
                self.known[name] = Connection(time, True, True)
        elif known.closed:
            if opens or time - known.seen > CLOSED_AGE:
                self.known[name] = Connection(time)
        elif not opens and (not known.confirmed or time - known.seen > 1):
            self.known[name] = Connection(time, True)
        return True

    def age(self, service: state.Service, time: int):
        """What the node's tick ends."""
        self.known = {
            name: one for name, one in self.known.items()
            if name[0] != service.index or not (
                time - one.seen > CLOSED_AGE if one.closed
                else self._is_over(service, one, time))}

    @staticmethod
    def _is_over(service, known: Connection, time: int) -> bool:
        limit = (min(service.idle_timeout, IDLE_MAX) if known.confirmed
                 else OPENING_AGE)
        return time - known.seen > limit


def can_reset(packet: parse.Packet) -> bool:
    """Fragments, and behind extension headers, are not answered."""
    if packet.family == state.IPV6:
        return packet.transport == packet.network + 40
    return not packet.first


def reset_back(packet: parse.Packet) -> bytes:
    """The frame that refuses a connection, to where its SYN came from."""
    frame, network = packet.frame, packet.network
    return frame[6:12] + frame[0:6] + frame[12:network] + reset(packet)


def reset(packet: parse.Packet) -> bytes:
    """The packet that answers a SYN, or what acknowledges something, as one
    of a connection that is not there."""
    frame, at = packet.frame, packet.transport
    sequence = acked = 0
    flags = RST
    if frame[at + 13] & ACK:
        sequence = int.from_bytes(frame[at + 8:at + 12], 'big')
    else:
        header = (frame[at + 12] >> 4) * 4
        acked = (int.from_bytes(frame[at + 4:at + 8], 'big') + 1 +
                 packet.end - at - header) % (1 << 32)
        flags |= ACK
    tcp = (frame[at + 2:at + 4] + frame[at:at + 2] +
           struct.pack('!IIBBHHH', sequence, acked, 0x50, flags, 0, 0, 0))
    vip, client = packet.destination, packet.source
    pseudo = vip + client + struct.pack('!HH', state.TCP, len(tcp))
    tcp = (tcp[:16] + checksum.checksum(pseudo + tcp).to_bytes(2, 'big') +
           tcp[18:])
    if packet.family == state.IPV6:
        return struct.pack('!IHBB16s16s', 6 << 28, len(tcp), state.TCP,
                           TTL, vip, client) + tcp
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(tcp), 0, 0x4000, TTL,
                     state.TCP, 0, vip, client)
    ip = ip[:10] + checksum.checksum(ip).to_bytes(2, 'big') + ip[12:]
    return ip + tcp
