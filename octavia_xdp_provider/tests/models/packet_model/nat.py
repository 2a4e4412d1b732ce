# SPDX-License-Identifier: Apache-2.0
"""NAT as in contributor/nat.rst: flows, and rewriting of packets."""

from collections.abc import Callable
import dataclasses
import enum
import struct
import typing

from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import icmp
from octavia_xdp_provider.tests.models.packet_model import nat_errors
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state

CHECKSUM = {state.TCP: 16, state.UDP: 6}
HEADER = {state.IPV4: 20, state.IPV6: 40}
SMALL = 1260
OPTIONS_MAX = 10
SUMMED_MAX = 4960
SOURCE_ROUTES = (131, 137)
FIN, SYN, RST, ACK = 1, 2, 4, 16
NEAR = 1 << 20


class State(enum.Enum):
    HALF_OPEN = 2
    ESTABLISHED = 3
    TIME_WAIT = 4


class End(typing.NamedTuple):
    address: bytes
    port: int


@dataclasses.dataclass(eq=False)
class Flow:
    """A flow of a service with its ends: client and VIP, pool and member."""

    service: state.Service
    client: End
    vip: End
    pool: End
    member: End
    index: int  # index of the member
    entropy: int
    state: State = State.HALF_OPEN
    replied: bool = False
    fins: set = dataclasses.field(default_factory=set)
    sequence: int | None = None  # the client's sequence number, in TIME_WAIT
    reset: bool = False  # in TIME_WAIT because of a RST
    since: set = dataclasses.field(default_factory=set)  # ends active since

    def begin_again(self, how: State):
        self.state, self.replied = how, how == State.ESTABLISHED
        self.reset = False
        self.since = set()

    @property
    def active(self) -> bool:
        return self.state != State.TIME_WAIT

    def ends(self, to_client: bool, quoted: bool = False) -> tuple[End, End]:
        """Return source and destination of the packet that leaves; `quoted`:
        those of the packet that an error quotes, as its receiver sent it."""
        if to_client:
            return ((self.client, self.vip) if quoted else
                    (self.vip, self.client))
        return ((self.member, self.pool) if quoted else
                (self.pool, self.member))

    def may_be_earlier(self, sequence: int) -> bool:
        """Whether a packet with this number may belong to a later flow."""
        if self.state != State.TIME_WAIT:
            return False
        if self.sequence is None:
            return True
        distance = (sequence - self.sequence) % (1 << 32)
        return NEAR <= distance < (1 << 32) - NEAR

    def touch(self, packet: parse.Packet, from_member: bool,
              has_room: Callable[[], bool]) -> bool:
        """Update the state; return whether the packet may be forwarded."""
        flags = tcp_flags(packet)
        if self._is_revived(flags, from_member) and not has_room():
            return False
        self._change(flags, from_member)
        if (self.state == State.TIME_WAIT and not packet.later and
                (not from_member or flags & ACK)):
            self.sequence = tcp_number(packet, 8 if from_member else 4) or 1
        return True

    def _active_ends(self, flags: int, from_member: bool) -> set:
        """Return the ends active since a reset, with this packet's; an element
        is whether the end is the member."""
        if flags & RST:
            return set()
        if flags & SYN and not from_member:
            return set(self.since)
        return self.since | {from_member}

    def _is_revived(self, flags: int, from_member: bool) -> bool:
        fins = self.fins | ({from_member} if flags & FIN else set())
        return (self.reset and len(fins) < 2 and
                len(self._active_ends(flags, from_member)) == 2)

    def _change(self, flags: int, from_member: bool):
        """Change the state by the TCP flags, which are 0 for UDP."""
        if self.state == State.TIME_WAIT and not self.reset:
            return
        if flags & RST:
            self.state, self.reset = State.TIME_WAIT, True
            self.since = set()
            return
        if self.reset:
            self.since = self._active_ends(flags, from_member)
            if len(self.since) == 2:
                self.begin_again(State.ESTABLISHED)
        elif from_member:
            self.replied = True
        elif self.replied and not flags & SYN:
            self.state = State.ESTABLISHED
        if flags & FIN:
            self.fins.add(from_member)
        if len(self.fins) == 2:
            self.state = State.TIME_WAIT


class Flows:
    """All flows, by packets of clients and by packets of members.

    :param allocate: returns the pool's End for (service, client's End,
        member's End), or None if no port is free.
    """

    def __init__(self, allocate=lambda service, client, member: None):
        self.allocate = allocate
        self.pools: set[bytes] = set()
        self._by_client: dict[tuple, Flow] = {}
        self._by_pool: dict[tuple, Flow] = {}
        self.fragments: dict[tuple, Flow] = {}

    def of_client(self, protocol: int, client: End, vip: End) -> Flow | None:
        return self._by_client.get((protocol, client, vip))

    def of_member(self, protocol: int, member: End, pool: End) -> Flow | None:
        flow = self._by_pool.get((protocol, pool))
        return flow if flow is not None and flow.member == member else None

    def begin(self, service: state.Service, client: End, index: int,
              entropy: int) -> Flow | None:
        member = service.members[index]
        member_end = End(member.address, member.port or service.port)
        pool = self.allocate(service, client, member_end)
        if pool is None:
            return None
        flow = Flow(service, client, End(service.vip, service.port), pool,
                    member_end, index, entropy)
        self._by_client[service.protocol, client, flow.vip] = flow
        self._by_pool[service.protocol, pool] = flow
        return flow

    def keep(self, services: list[state.Service]):
        """End the flows of all other services."""
        for flow in list(self._by_client.values()):
            if flow.service not in services:
                self.end(flow)

    def all(self) -> list[Flow]:
        return list(self._by_client.values())

    def active(self, service: state.Service) -> int:
        return sum(flow.active for flow in self._by_client.values()
                   if flow.service is service)

    def leave(self, key: tuple, flow: Flow):
        """Record the flow of a first fragment."""
        self.fragments[key] = flow

    def forget(self, key: tuple):
        """Drop the record: another packet's fragments reuse its key."""
        self.fragments.pop(key, None)

    def follow(self, key: tuple) -> Flow | None:
        """Return the flow of a later fragment, if it still exists."""
        flow = self.fragments.get(key)
        if flow is None or self._by_pool.get(
                (flow.service.protocol, flow.pool)) is not flow:
            return None
        return flow

    def end(self, flow: Flow):
        protocol = flow.service.protocol
        self._by_client.pop((protocol, flow.client, flow.vip), None)
        self._by_pool.pop((protocol, flow.pool), None)


class Rewritten(typing.NamedTuple):
    """A packet from its IP header on. `any_id`: the IPv4 ID may be any."""

    packet: bytes
    any_id: bool = False


def wrong(packet: parse.Packet) -> str | None:
    """Return what is wrong with a packet to a pool, where short transport
    headers matter for TCP and UDP only."""
    if packet.short and packet.protocol not in CHECKSUM:
        return None
    return packet.wrong


def ttl(packet: parse.Packet) -> int:
    return packet.frame[packet.network +
                        (8 if packet.family == state.IPV4 else 7)]


def tcp_flags(packet: parse.Packet) -> int:
    if packet.later or packet.protocol != state.TCP:
        return 0
    return packet.frame[packet.transport + 13]


def tcp_number(packet: parse.Packet, offset: int = 4) -> int:
    """Return the sequence number; the acknowledgement number at offset 8."""
    at = packet.transport + offset
    return int.from_bytes(packet.frame[at:at + 4], 'big')


def family_of(end: End) -> int:
    return state.IPV4 if len(end.address) == 4 else state.IPV6


def difference(packet: parse.Packet, family: int,
               quote: icmp.Quoted | None = None) -> int:
    """Return the bytes by which the packet grows in the other family."""
    if packet.family == family:
        return 0
    if quote is not None:
        return 2 * HEADER[family] + icmp.HEADER - (quote.at - packet.network)
    fragment = packet.first or packet.later
    return (HEADER[family] + 8 * (fragment and family == state.IPV6) -
            (packet.transport - packet.network))


def has_headers_behind(packet: parse.Packet) -> bool:
    """Whether an IPv6 packet has extensions after the fragment header."""
    return ((packet.first or packet.later) and
            packet.fragment_protocol in parse.EXTENSIONS)


def has_source_route(packet: parse.Packet) -> bool:
    """Whether an IPv4 packet's first source route is not yet exhausted."""
    options = packet.frame[packet.network + 20:packet.transport]
    for _ in range(OPTIONS_MAX):
        if len(options) < 3 or not options[0]:
            break
        if options[0] == 1:
            options = options[1:]
            continue
        if options[0] in SOURCE_ROUTES:
            return options[2] <= options[1]
        if options[1] < 2:
            return False
        options = options[options[1]:]
    return False


def rewrite(packet: parse.Packet, source: End,
            destination: End) -> Rewritten | None:
    """Rewrite a TCP or UDP packet; None: it cannot be translated to the other
    family."""
    family = family_of(source)
    body = packet.frame[packet.transport:packet.end]
    if not packet.later:
        field = CHECKSUM[packet.protocol]
        had = body[field:field + 2]
        none = packet.protocol == state.UDP and had == b'\0\0'
        new = struct.pack('!HH', source.port, destination.port) + body[4:]
        before = checksum.pseudo_header(
            packet.source, packet.destination, len(body),
            packet.protocol) + body
        pseudo = checksum.pseudo_header(
            source.address, destination.address, len(body), packet.protocol)
        if none and family == state.IPV6 and packet.family == state.IPV4:
            if (packet.first or len(body) > SUMMED_MAX or
                    packet.end > packet.readable or
                    struct.unpack_from('!H', body, 4)[0] != len(body)):
                return None
            value = checksum.checksum(pseudo + new).to_bytes(2, 'big')
        elif none or len(body) < field + 2:
            value = new[field:field + 2]
        else:
            value = checksum.refreshed(before, pseudo + new,
                                       len(pseudo) + field)
        is_there = not none or family == state.IPV6 != packet.family
        if packet.protocol == state.UDP and is_there and value == b'\0\0':
            value = b'\xff\xff'  # 0 would mean no checksum
        body = new[:field] + value + new[field + 2:]
    if family == packet.family:
        return Rewritten(same_header(packet, source, destination) + body)
    header, any_id = other_header(packet, source, destination, len(body))
    return Rewritten(header + body, any_id)


def same_header(packet: parse.Packet, source: End, destination: End) -> bytes:
    header = bytearray(packet.frame[packet.network:packet.transport])
    both = source.address + destination.address
    if packet.family == state.IPV4:
        header[8] -= 1
        header[12:20] = both
        header[10:12] = checksum.refreshed(
            packet.frame[packet.network:packet.transport], bytes(header), 10)
    else:
        header[7] -= 1
        header[8:40] = both
    return bytes(header)


class Fragment(typing.NamedTuple):
    id: int
    offset: int  # bytes
    more: bool


def fragment_of(packet: parse.Packet) -> Fragment | None:
    if not (packet.first or packet.later):
        return None
    if packet.family == state.IPV4:
        number, word = struct.unpack_from('!HH', packet.frame,
                                          packet.network + 4)
        return Fragment(number, (word & 0x1fff) * 8, bool(word & 0x2000))
    word, number = struct.unpack_from('!HI', packet.frame,
                                      packet.transport - 6)
    return Fragment(number, word & 0xfff8, bool(word & 1))


def other_header(packet: parse.Packet, source: End, destination: End,
                 length: int) -> tuple[bytes, bool]:
    """Return the IP header of the other family in front of `length` bytes, and
    whether any IPv4 ID will do."""
    frame, at = packet.frame, packet.network
    fragment = fragment_of(packet)
    if packet.family == state.IPV4:
        return ipv6(frame[at + 1], frame[at + 8] - 1, packet.protocol, source,
                    destination, length, fragment), False
    traffic = struct.unpack_from('!H', frame, at)[0] >> 4 & 0xff
    return ipv4(traffic, frame[at + 7] - 1, packet.protocol, source,
                destination, length, fragment), (
                    fragment is None and length + 20 <= SMALL)


def ipv4(tos: int, hops: int, protocol: int, source: End, destination: End,
         length: int, fragment: Fragment | None = None,
         whole: bool = False) -> bytes:
    """Return an IPv4 header. `whole`: set DF even on short packets."""
    number, word = 0, 0x4000
    if fragment is not None:
        number = fragment.id & 0xffff
        word = fragment.offset // 8 | (0x2000 if fragment.more else 0)
    elif length + 20 <= SMALL and not whole:
        word = 0
    header = struct.pack('!BBHHHBBH4s4s', 0x45, tos, 20 + length & 0xffff,
                         number, word, hops, protocol, 0, source.address,
                         destination.address)
    return (header[:10] + checksum.checksum(header).to_bytes(2, 'big') +
            header[12:])


def ipv6(traffic: int, hops: int, protocol: int, source: End,
         destination: End, length: int,
         fragment: Fragment | None = None) -> bytes:
    extension = b''
    if fragment is not None:
        extension = struct.pack('!BBHI', protocol, 0,
                                fragment.offset | fragment.more, fragment.id)
        protocol = parse.FRAGMENT
    return struct.pack('!IHBB16s16s', 6 << 28 | traffic << 20,
                       length + len(extension) & 0xffff, protocol, hops,
                       source.address, destination.address) + extension


def rewrite_error(packet: parse.Packet, quote: icmp.Quoted,
                  outer: tuple[End, End],
                  inner: tuple[End, End]) -> Rewritten | None:
    """Rewrite an ICMP error; None: the other family has no equivalent."""
    family = family_of(outer[0])
    message = packet.frame[packet.transport:packet.end]
    start = quote.at - packet.transport
    ports = struct.pack('!HH', inner[0].port, inner[1].port)
    before = message
    if packet.family == state.IPV6:
        before = checksum.pseudo_header(
            packet.source, packet.destination, len(message),
            state.ICMPV6) + message
    if family == packet.family:
        header = same_header(packet, *outer)
        quoted = _same_quote(packet, quote, inner)
        head = message[:icmp.HEADER]
    else:
        translated = nat_errors.other(message[:icmp.HEADER], family)
        if translated is None:
            return None
        head = translated
        quoted = _other_quote(packet, quote, inner)
        if quoted is None:
            return None
        length = icmp.HEADER + len(quoted) + len(message) - start
        make = ipv6 if family == state.IPV6 else ipv4
        at = packet.network
        if packet.family == state.IPV4:
            traffic, hops = packet.frame[at + 1], packet.frame[at + 8] - 1
        else:
            traffic = struct.unpack_from('!H', packet.frame, at)[0] >> 4 & 255
            hops = packet.frame[at + 7] - 1
        header = make(traffic, hops, state.ICMPV6 if family == state.IPV6
                      else state.ICMP, *outer, length)
    new = head + quoted + ports + message[start + 4:]
    pseudo = b''
    if family == state.IPV6:
        pseudo = checksum.pseudo_header(outer[0].address, outer[1].address,
                                        len(new), state.ICMPV6)
    field = checksum.refreshed(before, pseudo + new,
                               len(pseudo) + icmp.CHECKSUM)
    return Rewritten(header + new[:2] + field + new[4:])


def _same_quote(packet: parse.Packet, quote: icmp.Quoted,
                inner: tuple[End, End]) -> bytes:
    """Return the quoted header; a wrong checksum in it stays wrong."""
    was = packet.frame[packet.transport + icmp.HEADER:quote.at]
    header = bytearray(was)
    both = inner[0].address + inner[1].address
    if packet.family == state.IPV4:
        header[12:20] = both
        header[10:12] = checksum.refreshed(was, bytes(header), 10)
    else:
        header[8:40] = both
    return bytes(header)


def _other_quote(packet: parse.Packet, quote: icmp.Quoted,
                 inner: tuple[End, End]) -> bytes | None:
    """Return the quoted header in the other family; None where no packet of
    its length exists there."""
    was = packet.frame[packet.transport + icmp.HEADER:quote.at]
    if packet.family == state.IPV4:
        length = struct.unpack_from('!H', was, 2)[0] - len(was)
        if length < 0:
            return None
        return ipv6(was[1], was[8], quote.protocol, *inner, length)
    length = struct.unpack_from('!H', was, 4)[0] + 40 - len(was)
    if not 0 <= length <= 65535 - 20:
        return None
    return ipv4(struct.unpack_from('!H', was)[0] >> 4 & 0xff, was[7],
                quote.protocol, *inner, length)
