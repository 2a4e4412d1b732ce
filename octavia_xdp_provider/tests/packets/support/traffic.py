# SPDX-License-Identifier: Apache-2.0
"""Frames at random: mostly right, often nearly right, sometimes noise.

Plain bytes and not scapy: this makes tens of thousands a second. Checksums
are mostly random, since nothing that forwards may look at them; some are
right, and of those some become one of the two zeroes where they are written
again.
"""

import random
import struct

from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import quic
from octavia_xdp_provider.tests.models.packet_model import state

MACS = bytes((2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3))
EXTENSIONS = (0, 43, 44, 60)
PROTOCOLS = (state.TCP, state.UDP, state.SCTP)
MARTIANS = {4: (bytes(4), b'\x7f\0\0\1', b'\xe0\0\0\1', b'\xff' * 4),
            6: (bytes(16), bytes(15) + b'\1', b'\xff\2' + bytes(14),
                bytes(10) + b'\xff\xff\x0a\0\0\1')}
ERRORS = {4: (3, 4, 5, 11, 12), 6: (1, 2, 3, 4)}
# For transport headers and ICMP: offsets of the checksum, and of a word that
# has no influence on forwarding.
CHECKSUM = {state.TCP: 16, state.UDP: 6, state.ICMP: 2, state.ICMPV6: 2}
FREE = {state.TCP: 14, state.UDP: 8, state.ICMP: 4, state.ICMPV6: 4}
TCP_FLAGS = (2, 2, 2, 2, 0x10, 0x10, 0x10, 0x18, 0x12, 0x04, 0x11, 0x42,
             0x06, 0x03, 0)


class Traffic:
    """Clients of some services, and their neighbours."""

    def __init__(self, rng: random.Random, services: list[state.Service]):
        self.rng = rng
        self.clients = {
            4: [bytes((198, 51, 100, last)) for last in range(1, 17)] +
               [bytes((203, 0, 113, last)) for last in range(1, 5)],
            6: [b'\x20\x01\x0d\xb8\0\x0c' + bytes((0, third)) + bytes(7) +
                bytes((last,)) for third in (0, 1) for last in range(1, 11)]}
        self.identities = list(range(1, 9))
        self.follow(services)

    def follow(self, services: list[state.Service]):
        self.services = services

    # Parts -----------------------------------------------------------------

    def target(self):
        """(family, vip, protocol, port): a service, or what is near one."""
        rng = self.rng
        service = rng.choice(self.services)
        vip, protocol, port = service.vip, service.protocol, service.port
        chance = rng.random()
        if chance < 0.03:
            port = port + rng.choice((-1, 1, 256)) & 0xffff
        elif chance < 0.05:
            protocol = rng.choice(PROTOCOLS)
        elif chance < 0.07:
            place, bit = rng.randrange(len(vip)), 1 << rng.randrange(8)
            vip = vip[:place] + bytes((vip[place] ^ bit,)) + vip[place + 1:]
        elif chance < 0.08:
            port = rng.choice((0, 6080, 6081, 65535))
        return 4 if len(vip) == 4 else 6, vip, protocol, port

    def source(self, family: int, vip: bytes) -> bytes:
        rng = self.rng
        chance = rng.random()
        if chance < 0.02:
            return rng.choice(MARTIANS[family])
        if chance < 0.025:
            return vip
        if chance < 0.06:
            return rng.randbytes(len(vip))
        return rng.choice(self.clients[family])

    def source_port(self) -> int:
        rng = self.rng
        chance = rng.random()
        if chance < 0.9:
            return 1024 + rng.randrange(48)
        return 0 if chance < 0.91 else rng.randrange(65536)

    def payload(self) -> bytes:
        rng = self.rng
        chance = rng.random()
        if chance < 0.8:
            return rng.randbytes(rng.randrange(48))
        if chance < 0.9:
            return bytes(rng.randrange(48))
        if chance < 0.98:
            return bytes(rng.randrange(1150, 1480))
        return bytes(rng.randrange(3000))

    def options(self) -> bytes:
        """Return TCP options, an MSS among them; a multiple of 4 bytes."""
        rng = self.rng
        if rng.random() < 0.3:
            return b''
        out = b''
        for _ in range(rng.choice((1, 1, 2, 3, 6, 12))):
            kind = rng.randrange(8)
            if kind < 3:
                out += b'\x01'
            elif kind < 6:
                out += b'\x02\x04' + struct.pack(
                    '!H', rng.choice((536, 1220, 1380, 1400, 1440, 1460,
                                      8960, 65535)))
            elif kind == 6:
                out += b'\x04\x02'
            else:
                out += bytes((rng.randrange(256), rng.randrange(6)))
        out = out[:40]
        return out + bytes(-len(out) % 4)

    def quic(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.7 and self.services:
            service = rng.choice(self.services)
            members = list(service.members.values())
            server = (quic.server_id(*state.label(
                rng.choice(members), members)) if members
                else rng.randbytes(4))
        else:
            server = rng.randbytes(4)
        connection = bytes((rng.choice((0, 7, 0x1f, 0x20, 0xff)),)) + server
        connection += rng.randbytes(rng.randrange(4))
        if rng.random() < 0.5:
            return bytes((rng.choice((0x40, 0x41, 0x00)),)) + connection
        version = rng.choice((0, 1, 1, 1, 0x6b3343cf, 0xff00001d))
        return (bytes((0xc0 | rng.randrange(4) << 4,)) +
                struct.pack('!I', version) +
                bytes((len(connection),)) + connection +
                rng.randbytes(rng.randrange(8)))

    def transport(self, protocol: int, source_port: int, port: int,
                  ) -> bytes:
        rng = self.rng
        check = rng.choice((rng.randrange(65536), 0, 0xffff))
        ports = struct.pack('!HH', source_port, port)
        if protocol == state.TCP:
            options = self.options()
            return ports + struct.pack(
                '!IIBBHHH', 1, 1, (5 + len(options) // 4) << 4,
                rng.choice(TCP_FLAGS), 1024, check, 0
                ) + options + self.payload()
        if protocol == state.UDP:
            data = self.quic() if rng.random() < 0.4 else self.payload()
            return ports + struct.pack('!HH', 8 + len(data), check) + data
        return ports + rng.randbytes(8) + bytes(
            (rng.choice((1, 1, 0, 3)), 0, 0, 20)) + self.payload()

    def sealed(self, source: bytes, vip: bytes, protocol: int, data: bytes,
               zero_for: tuple[bytes, int | None] | None = None) -> bytes:
        """With a checksum that is right, and becomes 0 with another
        destination and type of ICMP (None: the same)."""
        at, free = CHECKSUM.get(protocol), FREE.get(protocol)
        if at is None or len(data) < free + 2:
            return data

        def value(destination, message):
            pseudo = b'' if protocol == state.ICMP else (
                checksum.pseudo_header(source, destination, len(message),
                                       protocol))
            return checksum.checksum(pseudo + message).to_bytes(2, 'big')
        data = data[:at] + b'\0\0' + data[at + 2:]
        if zero_for is not None:
            destination, kind = zero_for
            data = data[:free] + b'\0\0' + data[free + 2:]
            sent = data if kind is None else bytes((kind,)) + data[1:]
            data = data[:free] + value(destination, sent) + data[free + 2:]
        return data[:at] + value(vip, data) + data[at + 2:]

    def ipv4(self, source: bytes, destination: bytes, protocol: int,
             data: bytes, fragment: int = 0) -> bytes:
        rng = self.rng
        options = b''
        if rng.random() < 0.1:
            options = rng.randbytes(4 * rng.randrange(1, 11))
        fragment |= rng.choice((0, 0x4000))
        return struct.pack(
            '!BBHHHBBH4s4s', 0x45 + len(options) // 4, rng.randrange(256),
            20 + len(options) + len(data) & 0xffff,
            rng.choice(self.identities), fragment, rng.randrange(256),
            protocol, rng.choice((rng.randrange(65536), 0xffff, 0)), source,
            destination) + options + data

    def ipv6(self, source: bytes, destination: bytes, protocol: int,
             data: bytes, fragment: int = 0) -> bytes:
        rng = self.rng
        chain = []
        if rng.random() < 0.2:
            chain = [rng.choice(EXTENSIONS)
                     for _ in range(rng.choice((1, 1, 2, 3, 5, 6, 7, 8)))]
        if fragment:
            chain.insert(rng.randrange(len(chain) + 1), -44)
        following = protocol
        for kind in reversed(chain):
            if abs(kind) == 44:
                word = 0
                if kind < 0:
                    word = (fragment & 0x1fff) << 3 | fragment >> 13 & 1
                elif rng.random() < 0.1:
                    word = rng.choice((1, 8, 9, 6))
                data = struct.pack('!BBHI', following, rng.randrange(256),
                                   word, rng.choice(self.identities)) + data
            else:
                length = rng.choice((0, 0, 0, 1, 2))
                left = 1 if kind == 43 and rng.random() < 0.2 else 0
                data = bytes((following, length, 0, left)) + bytes(
                    4 + 8 * length) + data
            following = abs(kind)
        return struct.pack(
            '!IHBB16s16s', 6 << 28 | rng.randrange(1 << 28),
            len(data) & 0xffff, following, rng.randrange(256), source,
            destination) + data

    def ip(self, family: int, *arguments, **fields) -> bytes:
        return (self.ipv4 if family == 4 else self.ipv6)(*arguments,
                                                         **fields)

    # Packets ---------------------------------------------------------------

    def plain(self):
        rng = self.rng
        family, vip, protocol, port = self.target()
        source = self.source(family, vip)
        data = self.transport(protocol, self.source_port(), port)
        if rng.random() < 0.2:
            members = [member.address for service in self.services
                       if (service.vip, service.protocol, service.port) == (
                           vip, protocol, port)
                       for member in service.members.values()
                       if len(member.address) == len(vip)]
            data = self.sealed(source, vip, protocol, data,
                               (rng.choice(members or [vip]), None))
        return family, self.ip(family, source, vip, protocol, data)

    def fragment(self):
        rng = self.rng
        family, vip, protocol, port = self.target()
        source = rng.choice(self.clients[family][:4])
        if rng.random() < 0.4:
            data, word = self.transport(protocol, self.source_port(),
                                        port), 0x2000
        else:
            data = self.payload()
            word = rng.choice((1, 9, 100)) | rng.choice((0, 0x2000))
            if rng.random() < 0.05:
                protocol = rng.randrange(256)
        return family, self.ip(family, source, vip, protocol, data,
                               fragment=word)

    def echo(self):
        rng = self.rng
        family, vip, _, _ = self.target()
        source = self.source(family, vip)
        protocol = state.ICMP if family == 4 else state.ICMPV6
        kind, answer = (8, 0) if family == 4 else (128, 129)
        if rng.random() < 0.1:
            kind = rng.randrange(256)
        if rng.random() < 0.2:
            # IPv4's answer is nothing but zeroes
            data = bytes((kind, 0)) + bytes(6 + rng.randrange(80))
            data = self.sealed(source, vip, protocol, data)
        else:
            data = bytes((kind, rng.choice((0, 0, 1)))) + (
                rng.randbytes(6) + self.payload())
            if rng.random() < 0.4:
                data = self.sealed(source, vip, protocol, data,
                                   (vip, answer))
        return family, self.ip(family, source, vip, protocol, data)

    def error(self):
        rng = self.rng
        family, vip, protocol, port = self.target()
        client = rng.choice(self.clients[family])
        quoted_vip = vip
        if rng.random() < 0.05:
            quoted_vip = client
        ports = struct.pack('!HH', port, self.source_port())
        fragment = rng.choice((0,) * 8 + (0x2000, 9))
        quote = self.ip(family, quoted_vip, client, protocol,
                        ports + self.payload()[:60], fragment=fragment)
        if rng.random() < 0.05:
            quote = self.error_about(family, quoted_vip, client, quote)
        if rng.random() < 0.3:
            quote = quote[:rng.randrange(len(quote))]
        data = bytes((rng.choice(ERRORS[family]), rng.randrange(5))) + (
            rng.randbytes(6) + quote)
        router = self.source(family, vip)
        return family, self.ip(family, router, vip,
                               1 if family == 4 else 58, data)

    def error_about(self, family: int, source: bytes, destination: bytes,
                    quote: bytes) -> bytes:
        """Return an ICMP error, which must not be answered with an error
        (RFC 1122, RFC 4443)."""
        return self.ip(family, source, destination, 1 if family == 4 else 58,
                       bytes((self.rng.choice(ERRORS[family]), 0)) +
                       bytes(6) + quote)

    def tunnel(self):
        rng = self.rng
        family, vip, _, _ = self.target()
        inner_family, inner = self.plain()
        source = rng.choice(self.clients[family])
        kind = rng.randrange(3)
        protocol = 4 if inner_family == 4 else 41
        if kind == 1:
            inner = b'\0\0\x08\0' + inner
            protocol = 47
        elif kind == 2:
            inner = struct.pack('!HHHH', 50000, 6080, 8 + len(inner) & 0xffff,
                                0) + inner
            protocol = 17
        return family, self.ip(family, source, vip, protocol, inner)

    def other(self):
        family, vip, _, _ = self.target()
        return family, self.ip(family, self.source(family, vip), vip,
                               self.rng.randrange(256), self.payload())

    def noise(self):
        return self.rng.choice((4, 6)), self.rng.randbytes(
            self.rng.randrange(120))

    _KINDS = ((plain, 60), (fragment, 14), (echo, 4), (error, 12),
              (tunnel, 3), (other, 4), (noise, 1))
    _MAKE = [kind for kind, weight in _KINDS for _ in range(weight)]

    # Frames ----------------------------------------------------------------

    def frame(self) -> bytes:
        rng = self.rng
        family, packet = rng.choice(self._MAKE)(self)
        tags = b''
        chance = rng.random()
        if chance < 0.2:
            for _ in range(rng.choice((1, 1, 2, 2, 3))):
                tags += rng.choice((b'\x81\0', b'\x88\xa8')) + (
                    rng.randbytes(2))
        frame = (MACS + tags + (b'\x08\0' if family == 4 else b'\x86\xdd') +
                 packet)
        if rng.random() < 0.35:
            frame = self.mutated(frame)
        if len(frame) < 14:
            frame += bytes(14 - len(frame))
        return frame[:3000]

    def mutated(self, frame: bytes) -> bytes:
        rng = self.rng
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            kind = rng.randrange(8)
            if kind == 0:
                frame = frame[:rng.randrange(14, len(frame) + 1)]
            elif kind == 1:
                frame += rng.randbytes(rng.randrange(1, 20))
            elif kind == 2:  # a length that lies
                at = rng.choice((16, 18, 20, 22)) + rng.choice((0, 1))
                if at < len(frame):
                    value = frame[at] + rng.choice((-8, -1, 1, 8)) & 255
                    frame = frame[:at] + bytes((value,)) + frame[at + 1:]
            elif kind == 3:  # an interesting byte
                at = rng.randrange(12, min(len(frame), 120))
                value = rng.choice((0, 1, 0xff, 0x45, 0x60, 6, 17, 44, 43,
                                    60, 58, 4, 41, 0x7f, 0x80))
                frame = frame[:at] + bytes((value,)) + frame[at + 1:]
            elif kind == 4 and len(frame) > 40:  # a part twice
                at = rng.randrange(14, len(frame))
                end = rng.randrange(at, min(len(frame), at + 40) + 1)
                frame = frame[:end] + frame[at:end] + frame[end:]
            else:
                at = rng.randrange(12, min(len(frame), 120))
                value = frame[at] ^ 1 << rng.randrange(8)
                frame = frame[:at] + bytes((value,)) + frame[at + 1:]
        return frame
