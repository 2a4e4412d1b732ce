# SPDX-License-Identifier: Apache-2.0
"""What the programs decide, and the bytes that leave."""

import dataclasses
import ipaddress
import struct

from octavia_xdp_provider.host_model import packet as packets
from octavia_xdp_provider.host_model import rewrite

MARK = 0x6f78686f
GENEVE = 6081
LEFT_ALONE, SHOT, REDIRECT = None, 2, 7
TYPES = {4: b'\x08\x00', 6: b'\x86\xdd'}
VERSIONS = {text: version for version, text in TYPES.items()}
# RFC 6040, by inner and outer field; None: drop
NOT_ECT, ECT_1, ECT_0, CE = range(4)


def combined_ecn(inner: int, outer: int) -> int | None:
    if inner == NOT_ECT:
        return None if outer == CE else NOT_ECT
    if inner == ECT_0 and outer in (CE, ECT_1):
        return outer
    return CE if CE in (inner, outer) else inner


@dataclasses.dataclass(frozen=True)
class Rule:
    family: int
    protocol: int | None
    ports: tuple[int, int]
    networks: tuple[str, ...]


@dataclasses.dataclass
class Port:
    ifindex: int
    open: bool = False
    rules: tuple[Rule, ...] = ()
    generation: int = 0
    flows_max: int = 500000


@dataclasses.dataclass(frozen=True)
class Entry:
    key: int
    port: str
    vip: str
    vip_port: int
    fixed: str
    member_port: int
    protocol: int
    macs: bytes  # the VM's, then the gateway's
    mss: int = 0

    @property
    def vip_bytes(self) -> bytes:
        return ipaddress.ip_address(self.vip).packed

    @property
    def fixed_bytes(self) -> bytes:
        return ipaddress.ip_address(self.fixed).packed

    @property
    def listener(self) -> tuple:
        return (self.port, self.fixed_bytes, self.member_port, self.protocol)


@dataclasses.dataclass
class Flow:
    key: int
    generation: int
    answered: bool = False
    guessed: bool = False
    closing: bool = False
    confirmed: bool = False


class Result(Exception):
    """Ends a packet that is not ours, or that is dropped."""


@dataclasses.dataclass
class Model:
    """A hypervisor. ``nodes``: networks of LB nodes."""

    nodes: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    local_v4: str = '0.0.0.0'
    local_v6: str = '::'
    sid: str = '::'
    reply_ifindex: int = 0
    ports: dict[str, Port] = dataclasses.field(default_factory=dict)
    entries: dict[int, Entry] = dataclasses.field(default_factory=dict)
    flows: dict[tuple, Flow] = dataclasses.field(default_factory=dict)
    echoes: dict[tuple, int] = dataclasses.field(default_factory=dict)
    direct: set[tuple] = dataclasses.field(default_factory=set)
    fragments: dict[tuple, int] = dataclasses.field(default_factory=dict)
    remarks: list[str] = dataclasses.field(default_factory=list)

    def _in(self, address: bytes, networks: tuple[str, ...]) -> bool:
        parsed = ipaddress.ip_address(address)
        return any(parsed in ipaddress.ip_network(text) for text in networks)

    def _admits(self, entry: Entry, client: bytes) -> bool:
        port = self.ports[entry.port]
        if port.open or self._in(client, self.nodes):
            return True
        family = 4 if len(client) == 4 else 6
        return any(
            rule.family == family and rule.protocol in (None, entry.protocol)
            and rule.ports[0] <= entry.member_port <= rule.ports[1]
            and self._in(client, rule.networks) for rule in port.rules)

    # from the NIC

    def nic(self, frame: bytes) -> tuple[int | None, bytes, str]:
        """(action, frame, outcome)"""
        try:
            return (REDIRECT, *self._arrive(frame))
        except Result as result:
            outcome = str(result)
            return (LEFT_ALONE if outcome == 'PASS' else SHOT, frame, outcome)

    def _tunnel(self, frame: bytes) -> tuple[int, bytes, int, bytes, int,
                                             bool]:
        """(key, source, inner version, inner, TOS, whether it is right)"""
        version = VERSIONS.get(frame[12:14])
        data = frame[14:]
        if version == 4:
            if len(data) < 20 or data[0] != 0x45 or struct.unpack_from(
                    '!H', data, 6)[0] & 0x3fff:
                raise Result('PASS')
            source, destination, size = data[12:16], data[16:20], 20
            protocol, tos = data[9], data[1]
            length, = struct.unpack_from('!H', data, 2)
            right = packets.total(data[:20]) == 0xffff
            local = self.local_v4
        elif version == 6 and len(data) >= 40 and data[0] >> 4 == 6:
            source, destination, size = data[8:24], data[24:40], 40
            protocol = data[6]
            tos = (data[0] & 15) << 4 | data[1] >> 4
            length = 40 + struct.unpack_from('!H', data, 4)[0]
            right, local = True, self.local_v6
        else:
            raise Result('PASS')
        if protocol == packets.UDP:
            if (destination != ipaddress.ip_address(local).packed or
                    len(data) < size + 16):
                raise Result('PASS')
            port, udp_length, check, flags, kind = struct.unpack_from(
                '!2xHHHH2s', data, size)
            if (port != GENEVE or check or flags or
                    kind not in VERSIONS):
                raise Result('PASS')
            right = right and udp_length == length - size
            key = int.from_bytes(data[size + 12:size + 15], 'big')
            inner, size = VERSIONS[kind], size + 16
        elif (version == 6 and protocol in (4, 41) and destination[:12] ==
              ipaddress.ip_address(self.sid).packed[:12]):
            key = int.from_bytes(destination[12:], 'big')
            inner = 4 if protocol == 4 else 6
        else:
            raise Result('PASS')
        # that there is nothing but the tunnel packet and padding
        right = right and size < length <= len(data)
        return key, source, inner, data[size:], tos, (
            right and self._fits(data, size, length, inner))

    def _fits(self, data: bytes, size: int, length: int, inner: int) -> bool:
        rest = data[size:]
        if inner == 4:
            return (len(rest) >= 20 and rest[0] >> 4 == 4 and
                    rest[0] & 15 >= 5 and
                    size + struct.unpack_from('!H', rest, 2)[0] == length)
        return (len(rest) >= 40 and rest[0] >> 4 == 6 and
                size + 40 + struct.unpack_from('!H', rest, 4)[0] == length)

    def _arrive(self, frame: bytes) -> tuple[bytes, str]:
        key, source, version, data, tos, right = self._tunnel(frame)
        entry = self.entries.get(key)
        if not self._in(source, self.nodes):
            raise Result('DROP_SOURCE' if entry else 'PASS')
        if not entry:
            raise Result('DROP_KEY')
        if not right:
            raise Result('DROP_MALFORMED')
        try:
            packet = packets.parse(data)
        except packets.Malformed:
            raise Result('DROP_MALFORMED') from None
        inner = data[1] if version == 4 else data[1] >> 4
        ecn = combined_ecn(inner & 3, tos & 3)
        if ecn is None:
            raise Result('DROP_ECN')
        if not self.ports[entry.port].ifindex:
            raise Result('DROP_NO_TAP')
        self._decide_in(entry, data, packet)
        if packet.error:
            data = rewrite.quoted_end(data, packet, True, entry.fixed_bytes,
                                      entry.member_port)
        data = rewrite.end(data, packet, True, entry.fixed_bytes,
                           entry.member_port)
        if ecn != inner & 3:
            data = rewrite.ecn(data, version, ecn)
        return entry.macs + TYPES[version] + data, 'IN'

    def _decide_in(self, entry: Entry, data: bytes,
                   packet: packets.Packet) -> None:
        if packet.destination != entry.vip_bytes:
            raise Result('DROP_MISMATCH')
        if packet.error:
            self._error_in(entry, data, packet)
            return
        if packet.echo == 'request':
            if not self._in(packet.source, self.nodes):
                raise Result('DROP_MISMATCH')
            self.echoes[entry.port, entry.fixed_bytes, packet.source,
                        packet.source_port, packet.destination_port
                        ] = entry.key
            return
        if packet.protocol != entry.protocol or (
                packet.has_ports and
                packet.destination_port != entry.vip_port):
            raise Result('DROP_MISMATCH')
        if not packet.has_ports:
            if not self._admits(entry, packet.source):
                raise Result('DROP_NOT_ALLOWED')
            return
        self._flow_in(entry, packet)

    def _error_in(self, entry: Entry, data: bytes,
                  packet: packets.Packet) -> None:
        found = packets.parse_quote(data, packet)
        if not found or found[1].protocol != entry.protocol or (
                found[1].source, found[1].source_port) != (
                    entry.vip_bytes, entry.vip_port):
            raise Result('DROP_ICMP')
        quote = found[1]
        flow = self.flows.get((entry.listener, quote.destination,
                               quote.destination_port))
        if not flow or flow.key != entry.key:
            raise Result('DROP_ICMP')
        if (flow.generation != self.ports[entry.port].generation and
                not self._admits(entry, quote.destination)):
            raise Result('DROP_NOT_ALLOWED')

    def _flow_in(self, entry: Entry, packet: packets.Packet) -> None:
        name = entry.listener, packet.source, packet.source_port
        generation = self.ports[entry.port].generation
        flow = self.flows.get(name)
        if flow and flow.key != entry.key:
            if not (flow.closing or flow.guessed):
                raise Result('DROP_COLLISION')
            flow = None
            del self.flows[name]
        if (not flow or flow.generation != generation) and (
                not self._admits(entry, packet.source)):
            self.flows.pop(name, None)
            raise Result('DROP_NOT_ALLOWED')
        if not flow:
            self.flows[name] = Flow(entry.key, generation,
                                    closing=packet.closes)
            return
        flow.generation = generation
        flow.guessed = False
        if packet.closes:
            flow.closing = True
        elif packet.opens:
            flow.closing = False
        if flow.answered and not packet.opens and not flow.confirmed:
            full = sum(one.confirmed and self.entries[one.key].port ==
                       entry.port for one in self.flows.values())
            if full < self.ports[entry.port].flows_max:
                flow.confirmed = True
            else:
                self.remarks.append('FLOWS_FULL')

    # from the tap

    def tap_in(self, frame: bytes, port: str) -> tuple[int | None, bytes, str]:
        try:
            return (REDIRECT, *self._leave(frame, port))
        except Result as result:
            outcome = str(result)
            return (LEFT_ALONE if outcome == 'PASS' else SHOT, frame, outcome)

    def _parse(self, frame: bytes) -> packets.Packet:
        if frame[12:14] not in VERSIONS:
            raise Result('PASS')
        try:
            return packets.parse(frame[14:])
        except packets.Malformed:
            raise Result('PASS') from None

    def _leave(self, frame: bytes, port: str) -> tuple[bytes, str]:
        packet, data = self._parse(frame), frame[14:]
        fragment = (port, packet.source, packet.destination, packet.protocol,
                    packet.id)
        if packet.later:
            key = self.fragments.get(fragment)
            if key is None:
                raise Result('PASS')
        elif packet.error:
            key = self._error_out(data, packet, port)
        elif packet.echo == 'reply':
            key = self.echoes.pop((
                port, packet.source, packet.destination,
                packet.destination_port, packet.source_port), None)
            if key is None:
                raise Result('PASS')
        elif packet.has_ports:
            key = self._flow_out(packet, port)
        else:
            raise Result('PASS')
        if not self.reply_ifindex:
            raise Result('DROP_NO_REPLY')
        entry = self.entries[key]
        if packet.fragment and not packet.later:
            self.fragments[fragment] = key
        if packet.error:
            data = rewrite.quoted_end(data, packet, False, entry.vip_bytes,
                                      entry.vip_port)
        if packet.flags & packets.SYN:
            data = rewrite.clamp(data, packet, entry.mss)
        data = rewrite.end(data, packet, False, entry.vip_bytes,
                           entry.vip_port)
        return frame[:14] + data, 'OUT'

    def _listeners(self, listener: tuple) -> list[Entry]:
        return [entry for entry in self.entries.values()
                if entry.listener == listener]

    def _error_out(self, data: bytes, packet: packets.Packet,
                   port: str) -> int:
        found = packets.parse_quote(data, packet)
        if not found or found[1].destination != packet.source:
            raise Result('PASS')
        quote = found[1]
        listener = (port, quote.destination, quote.destination_port,
                    quote.protocol)
        flow = self.flows.get((listener, quote.source, quote.source_port))
        if not flow or not self._listeners(listener):
            raise Result('PASS')
        return flow.key

    def _flow_out(self, packet: packets.Packet, port: str) -> int:
        listener = port, packet.source, packet.source_port, packet.protocol
        entries = self._listeners(listener)
        if not entries:
            raise Result('PASS')
        name = listener, packet.destination, packet.destination_port
        generation = self.ports[port].generation
        flow = self.flows.get(name)
        if flow:
            if flow.generation != generation and not self._admits(
                    self.entries[flow.key], packet.destination):
                del self.flows[name]
                raise Result('DROP_NOT_ALLOWED')
            flow.generation = generation
            flow.answered = True
            flow.closing = flow.closing or packet.closes
            return flow.key
        if (packet.protocol != packets.TCP or packet.opens or
                name in self.direct):
            raise Result('PASS')
        if len(entries) != 1:
            raise Result('DROP_AMBIGUOUS')
        if self._in(packet.destination, self.nodes + self.closed):
            raise Result('DROP_CLOSED')
        if not self._admits(entries[0], packet.destination):
            raise Result('DROP_NOT_ALLOWED')
        self.remarks.append('GUESSED')
        self.flows[name] = Flow(entries[0].key, generation, answered=True,
                                guessed=True)
        return entries[0].key

    def tap_out(self, frame: bytes, port: str, mark: int = 0) -> None:
        """Notes what came another way; changes nothing."""
        if mark == MARK:
            return
        try:
            packet = self._parse(frame)
        except Result:
            return
        if packet.protocol != packets.TCP or not packet.has_ports:
            return
        listener = (port, packet.destination, packet.destination_port,
                    packet.protocol)
        if self._listeners(listener):
            self.direct.add((listener, packet.source, packet.source_port))
