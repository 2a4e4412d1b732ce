# SPDX-License-Identifier: Apache-2.0
"""The programs' decisions, and the bytes that leave."""

import dataclasses
import ipaddress

from octavia_xdp_provider.tests.models.host_model import packet as packets
from octavia_xdp_provider.tests.models.host_model import rewrite
from octavia_xdp_provider.tests.models.host_model import too_big
from octavia_xdp_provider.tests.models.host_model import tunnels

MARK = 0x6f78686f
LEFT_ALONE, SHOT, REDIRECT = None, 2, 7
NOT_ECT, ECT_1, ECT_0, CE = range(4)


def combined_ecn(inner: int, outer: int) -> int | None:
    """Combine the fields as RFC 6040 does; None: drop the packet."""
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
    arriving: bool = False  # set from outside: the model has no clock


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
    closing: bool = False
    confirmed: bool = False
    direct: bool = False  # seen outside a tunnel while the VM arrived


class Result(Exception):
    """Ends the processing of a packet that is passed or dropped."""


@dataclasses.dataclass
class Model:
    """A hypervisor. ``nodes``: networks of LB nodes; ``peers``: networks of
    other hypervisors."""

    nodes: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    local_v4: str = '0.0.0.0'
    local_v6: str = '::'
    sid: str = '::'
    reply_ifindex: int = 0
    reply_mtu: int = 65536
    ports: dict[str, Port] = dataclasses.field(default_factory=dict)
    entries: dict[int, Entry] = dataclasses.field(default_factory=dict)
    flows: dict[tuple, Flow] = dataclasses.field(default_factory=dict)
    echoes: dict[tuple, int] = dataclasses.field(default_factory=dict)
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
        """Return (action, frame, outcome) of a frame from the NIC."""
        try:
            return (REDIRECT, *self._arrive(frame))
        except Result as result:
            outcome = str(result)
            return (LEFT_ALONE if outcome == 'PASS' else SHOT, frame, outcome)

    def _tunnel(self, frame: bytes) -> tunnels.Tunnel:
        tunnel = tunnels.read(frame, {
            4: ipaddress.ip_address(self.local_v4).packed,
            6: ipaddress.ip_address(self.local_v6).packed},
            ipaddress.ip_address(self.sid).packed[:12])
        if tunnel is None:
            raise Result('PASS')
        return tunnel

    def _arrive(self, frame: bytes) -> tuple[bytes, str]:
        tunnel = self._tunnel(frame)
        entry = self.entries.get(tunnel.key)
        handed_on = not self._in(tunnel.source, self.nodes)
        if handed_on and (tunnel.alternative or
                          not self._in(tunnel.source, self.peers)):
            raise Result('DROP_SOURCE' if entry else 'PASS')
        if not entry:
            raise Result('DROP_KEY')
        if not tunnel.right:
            raise Result('DROP_MALFORMED')
        version, data, tos = tunnel.inner, tunnel.data, tunnel.tos
        try:
            packet = packets.parse(data)
        except packets.Malformed:
            raise Result('DROP_MALFORMED') from None
        inner = data[1] if version == 4 else data[1] >> 4
        ecn = combined_ecn(inner & 3, tos & 3)
        if ecn is None:
            raise Result('DROP_ECN')
        if tunnel.alternative or handed_on:
            chosen = self._choose(entry, tunnel, packet)
            if chosen is None:
                self.remarks.append('HANDED_ON')
                return tunnels.handed_on(frame, tunnel), 'HANDED_ON'
            entry = chosen
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
        return entry.macs + tunnels.TYPES[version] + data, 'IN'

    def _choose(self, entry: Entry, tunnel: tunnels.Tunnel,
                packet: packets.Packet) -> Entry | None:
        """Return the entry for a packet that names an alternative or was
        handed on; None: hand it on to the alternative."""
        handed_on = tunnel.alternative is None
        if (entry.protocol != packets.TCP or packet.fragment or
                (not packet.error and (packet.protocol != packets.TCP or
                                      packet.opens))):
            if handed_on:
                raise Result('DROP_UNKNOWN')
            return entry
        if not self._is_for(entry, packet):
            return entry
        if self._is_here(entry, tunnel.data, packet):
            if handed_on:
                self.remarks.append('SECOND_CHANCE')
            return entry
        if handed_on:
            raise Result('DROP_UNKNOWN')
        address, key = tunnel.alternative
        own = tunnel.own
        if address[:len(own)] != own:
            if self._in(address, self.peers):
                return None
            other = None
        else:
            other = self.entries.get(key)
        if (other and other.protocol == packets.TCP and
                self._is_for(other, packet) and
                self._is_here(other, tunnel.data, packet)):
            self.remarks.append('SECOND_CHANCE')
            return other
        self.remarks.append('KEPT')
        return entry

    @staticmethod
    def _is_for(entry: Entry, packet: packets.Packet) -> bool:
        return packet.destination == entry.vip_bytes and (
            packet.error or packet.destination_port == entry.vip_port)

    def _is_here(self, entry: Entry, data: bytes,
                 packet: packets.Packet) -> bool:
        client, port = packet.source, packet.source_port
        if packet.error:
            quoted = packets.parse_quote(data, packet)
            if not quoted or quoted[1].protocol != entry.protocol or (
                    quoted[1].source, quoted[1].source_port) != (
                        entry.vip_bytes, entry.vip_port):
                return False
            client, port = quoted[1].destination, quoted[1].destination_port
        flow = self.flows.get((entry.listener, client, port))
        return (flow is not None and not flow.direct and
                flow.key == entry.key)

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
        quoted = packets.parse_quote(data, packet)
        if not quoted or quoted[1].protocol != entry.protocol or (
                quoted[1].source, quoted[1].source_port) != (
                    entry.vip_bytes, entry.vip_port):
            raise Result('DROP_ICMP')
        quote = quoted[1]
        flow = self.flows.get((entry.listener, quote.destination,
                               quote.destination_port))
        if not flow or flow.direct or flow.key != entry.key:
            raise Result('DROP_ICMP')
        if (flow.generation != self.ports[entry.port].generation and
                not self._admits(entry, quote.destination)):
            raise Result('DROP_NOT_ALLOWED')

    def _flow_in(self, entry: Entry, packet: packets.Packet) -> None:
        name = entry.listener, packet.source, packet.source_port
        generation = self.ports[entry.port].generation
        flow = self.flows.get(name)
        if flow and (flow.direct or flow.key != entry.key):
            if not (flow.closing or flow.direct):
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
        if packet.closes:
            flow.closing = True
        elif packet.opens:
            flow.closing = False
        if flow.answered and not packet.opens and not flow.confirmed:
            confirmed = sum(other.confirmed and self.entries[other.key].port
                            == entry.port for other in self.flows.values())
            if confirmed < self.ports[entry.port].flows_max:
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
        if frame[12:14] not in tunnels.VERSIONS:
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
            if (key not in self.entries or
                    self.entries[key].fixed_bytes != packet.source):
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
        if len(data) > self.reply_mtu:
            return self._answer_too_big(frame, packet), 'SENT_TOO_BIG'
        if packet.error:
            data = rewrite.quoted_end(data, packet, False, entry.vip_bytes,
                                      entry.vip_port)
        if packet.flags & packets.SYN:
            data = rewrite.clamp(data, packet, entry.mss)
        data = rewrite.end(data, packet, False, entry.vip_bytes,
                           entry.vip_port)
        return frame[:14] + data, 'OUT'

    def _answer_too_big(self, frame: bytes, packet: packets.Packet) -> bytes:
        """Return the ICMP error; its rate limit is left to tests."""
        answer = too_big.answer(frame, packet, self.reply_mtu)
        if answer is None:
            raise Result('DROP_TOO_BIG')
        self.remarks.append('SENT_TOO_BIG')
        return answer

    def _listeners(self, listener: tuple) -> list[Entry]:
        return [entry for entry in self.entries.values()
                if entry.listener == listener]

    def _error_out(self, data: bytes, packet: packets.Packet,
                   port: str) -> int:
        quoted = packets.parse_quote(data, packet)
        if not quoted or quoted[1].destination != packet.source:
            raise Result('PASS')
        quote = quoted[1]
        listener = (port, quote.destination, quote.destination_port,
                    quote.protocol)
        flow = self.flows.get((listener, quote.source, quote.source_port))
        if not flow or flow.direct or not self._listeners(listener):
            raise Result('PASS')
        return flow.key

    def _flow_out(self, packet: packets.Packet, port: str) -> int:
        listener = port, packet.source, packet.source_port, packet.protocol
        if packet.opens or not self._listeners(listener):
            raise Result('PASS')
        name = listener, packet.destination, packet.destination_port
        generation = self.ports[port].generation
        flow = self.flows.get(name)
        if flow and not flow.direct:
            if flow.generation != generation and not self._admits(
                    self.entries[flow.key], packet.destination):
                del self.flows[name]
                raise Result('DROP_NOT_ALLOWED')
            flow.generation = generation
            flow.answered = True
            flow.closing = flow.closing or packet.closes
            return flow.key
        if (not flow and self.ports[port].arriving and
                packet.protocol == packets.TCP and
                not packet.flags & packets.SYN):
            raise Result('DROP_ARRIVING')
        raise Result('PASS')

    def tap_out(self, frame: bytes, port: str, mark: int = 0) -> None:
        """Record TCP that reaches members outside a tunnel while the VM
        arrives; frames stay unchanged."""
        if mark == MARK or not self.ports[port].arriving:
            return
        try:
            packet = self._parse(frame)
        except Result:
            return
        if packet.protocol != packets.TCP or not packet.has_ports:
            return
        listener = (port, packet.destination, packet.destination_port,
                    packet.protocol)
        entries = self._listeners(listener)
        if entries:
            self.flows.setdefault(
                (listener, packet.source, packet.source_port),
                Flow(entries[0].key, 0, direct=True))
