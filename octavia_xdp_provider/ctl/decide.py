# SPDX-License-Identifier: Apache-2.0
"""What should become of a packet, step by step, by the node's tables.

It follows the contract of the forwarding program (forwarding.rst) and is an
implementation of its own: explain.py compares it with what the program does.
"""

import dataclasses
import ipaddress
import struct

from octavia_xdp_provider.ctl import outer
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import quic
from octavia_xdp_provider.ctl import select
from octavia_xdp_provider.ctl import show
from octavia_xdp_provider.node.inspection import Packet
from octavia_xdp_provider.node.types import Encapsulation
from octavia_xdp_provider.node.types import Key
from octavia_xdp_provider.node.types import NodeFlag
from octavia_xdp_provider.node.types import Outcome
from octavia_xdp_provider.node.types import PROTOCOL_NAMES
from octavia_xdp_provider.node.types import ServiceFlag

_TUNNELS = {4: 'IPIP', 41: 'IPv6 in IP', 47: 'GRE'}
_NAMES = PROTOCOL_NAMES | {packet.ICMP: 'ICMP', packet.ICMPV6: 'ICMPv6'}
_ECHO = {4: 8, 6: 128}
_ERRORS = {4: (3, 4, 5, 11, 12), 6: (1, 2, 3, 4)}
_ICMP = {4: packet.ICMP, 6: packet.ICMPV6}
_SCTP_INIT = 1
_LIMIT_V4, _LIMIT_V6 = 576, 1280


@dataclasses.dataclass
class Decision:
    """``instead``: the member if the flow cannot be remembered.
    ``by_routes``: the kernel's routes are asked, which is not done again.
    """

    steps: list = dataclasses.field(default_factory=list)
    outcome: Outcome = Outcome.PASS
    remarks: set = dataclasses.field(default_factory=set)
    parsed: packet.Parsed | None = None
    key: Key | None = None
    member: object = None
    instead: object = None
    uplink: object = None
    entropy: int = 0
    by_routes: bool = False
    limited: bool = False
    settings: object = None
    node_settings: object = None

    def step(self, topic, text):
        self.steps.append((topic, text))

    def end(self, outcome):
        self.outcome = outcome
        return self


def flow_text(protocol, source, source_port, destination,
              destination_port):
    name = _NAMES.get(protocol, f'protocol {protocol}')
    if not source_port and not destination_port:
        return f'{name} {source} -> {destination}'
    return (f'{name} {_with_port(source, source_port)} -> '
            f'{_with_port(destination, destination_port)}')


def _with_port(address, port):
    return f'[{address}]:{port}' if ':' in address else f'{address}:{port}'


class Decider:
    """Decides on packets, each as it finds the rehearsal."""

    def __init__(self, tables, rehearsal):
        self.tables = tables
        self._rehearsal = rehearsal

    def decide(self, frame):
        """The Decision on a frame; before it is run in the rehearsal."""
        decision = Decision()
        parsed = packet.parse(frame)
        if not isinstance(parsed, packet.Parsed):
            decision.step('packet', f'{parsed}: not looked at')
            return decision
        decision.parsed = parsed
        decision.step('packet', _describe(parsed))
        keys = self.tables.vips.get(parsed.destination)
        if not keys:
            decision.step('VIP', f'{parsed.destination} is none of this '
                          'node: left to the kernel')
            return decision
        decision.step('VIP', f'{parsed.destination} is a VIP with the '
                      'services ' + ', '.join(f'{key.protocol} {key.port}'
                                  for key in keys[:8])
                      + (' …' if len(keys) > 8 else ''))
        if parsed.wrong:
            decision.step('headers', parsed.wrong)
            return decision.end(Outcome.DROP_MALFORMED)
        return self._by_protocol(decision, parsed)

    def _by_protocol(self, decision, parsed):
        protocol = parsed.protocol
        if parsed.later and (protocol in packet.TRANSPORT_LENGTH
                             or protocol in packet.EXTENSIONS):
            return self._later(decision, parsed)
        if protocol in packet.TRANSPORT_LENGTH:
            return self._transport(decision, parsed)
        if protocol == _ICMP[parsed.version]:
            return self._icmp(decision, parsed)
        if protocol in _TUNNELS:
            decision.step('protocol', f'{_TUNNELS[protocol]}: somebody '
                          'else\'s tunnel')
            return decision.end(Outcome.DROP_TUNNEL)
        decision.step('protocol', f'{protocol} is left to the kernel')
        return decision

    # TCP, UDP, SCTP

    def _transport(self, decision, parsed):
        need = packet.TRANSPORT_LENGTH[parsed.protocol]
        head = parsed.part(parsed.transport, need)
        if head is None:
            decision.step('headers', f'less than the {need} bytes of the '
                          'transport header')
            return decision.end(Outcome.DROP_MALFORMED)
        source_port, port = struct.unpack_from('!HH', head)
        key = self._find(decision, parsed, parsed.protocol, port)
        if key is None:
            if parsed.protocol == packet.UDP and port == outer.GUE_PORT:
                decision.step('protocol', 'GUE: somebody else\'s tunnel')
                return decision.end(Outcome.DROP_TUNNEL)
            return decision
        settings = self.tables.services[key].settings
        opens = self._opens(parsed, settings)
        refused = self._admit(decision, parsed, key, opens)
        if refused is not None:
            return decision.end(refused)
        question = Packet(
            parsed.source, parsed.destination, parsed.protocol, source_port,
            port, False, parsed.fragment_protocol, parsed.fragment_id)
        selection = self._rehearsal.select(key, question)
        decision.entropy = selection.entropy
        if not select.by_quic(
                decision, self.tables, key, _payload(parsed)):
            select.by_slot(decision, self.tables, key, selection, question,
                           opens)
        if parsed.first:
            decision.step('fragment', 'the first: later ones will follow it')
        return self._send(decision, parsed, key, opens)

    def _find(self, decision, parsed, protocol, port):
        key = Key(parsed.destination, PROTOCOL_NAMES[protocol], port)
        service = self.tables.services.get(key)
        if service is None:
            decision.step('service', f'none for {key.protocol} port {port}')
            return None
        decision.key = key
        decision.step('service', f'{key.protocol} port {port}: '
                      f'{service.enabled} of {service.members} members take '
                      'new flows, encapsulation '
                      + service.settings.encapsulation.name.lower())
        return key

    @staticmethod
    def _opens(parsed, settings):
        """Whether the packet opens a flow."""
        if parsed.protocol == packet.TCP:
            flags = parsed.frame[parsed.transport + 13]
            return flags & packet.OPENING_MASK == packet.SYN
        if parsed.protocol == packet.SCTP:
            return parsed.part(parsed.transport + 12,
                               1) == bytes([_SCTP_INIT])
        return (ServiceFlag.QUIC in settings.flags
                and quic.opens(_payload(parsed)))

    def _admit(self, decision, parsed, key, opens):
        """Why the packet is refused, or None."""
        if packet.is_martian(parsed.source, parsed.destination):
            decision.step('source', f'{parsed.source} is no client\'s '
                          'address')
            return Outcome.DROP_MARTIAN
        networks = self.tables.allowed(key)
        source = ipaddress.ip_address(parsed.source)
        if not networks:
            decision.step('allowed_cidrs', 'none: everybody may')
        else:
            found = next((network for network in networks
                          if source.version == network.version
                          and source in network), None)
            decision.step('allowed_cidrs', f'{source} is in {found}'
                          if found else f'{source} is in none of '
                          f'{len(networks)}')
            if found is None:
                return Outcome.DROP_NOT_ALLOWED
        rate = self.tables.services[key].settings.new_flow_rate
        if not rate or parsed.later or not (
                opens or parsed.protocol == packet.UDP):
            return None
        tokens = self._rehearsal.tokens(key, parsed.source)
        decision.step('rate', f'{rate} new flows per second and source; this '
                      f'one may open {int(tokens)} now')
        return Outcome.DROP_RATE if tokens < 1 else None

    # Fragments

    def _later(self, decision, parsed):
        question = Packet(parsed.source, parsed.destination, parsed.protocol,
                          later=True,
                          fragment_protocol=parsed.fragment_protocol,
                          fragment_id=parsed.fragment_id)
        found = self._rehearsal.first_fragment(question)
        if found is not None:
            key, index = found
            member = self.tables.members(key).get(index)
            if key in self.tables.services and select.keeps(member):
                return self._follow(decision, parsed, question, key, member)
        decision.step('fragment', f'a later one of {parsed.fragment_id:#x}; '
                      'where the first went is not known')
        if parsed.protocol not in packet.TRANSPORT_LENGTH:
            return decision
        name = PROTOCOL_NAMES[parsed.protocol]
        ports = [key.port for key in self.tables.vips[parsed.destination]
                 if key.protocol == name]
        if not ports:
            decision.step('service', f'the VIP has none for {name}')
            return decision.end(Outcome.DROP_FRAGMENT)
        key = self._find(decision, parsed, parsed.protocol, min(ports))
        refused = self._admit(decision, parsed, key, False)
        if refused is not None:
            return decision.end(refused)
        decision.remarks.add(Outcome.FRAGMENT_GUESSED)
        selection = self._rehearsal.select(key, question)
        decision.entropy = selection.entropy
        select.by_slot(decision, self.tables, key, selection, question,
                       False)
        return self._send(decision, parsed, key, False)

    def _follow(self, decision, parsed, question, key, member):
        decision.key = key
        decision.step('fragment', f'a later one of {parsed.fragment_id:#x}; '
                      f'the first went to {member.address}, service '
                      f'{key.protocol} port {key.port}')
        refused = self._admit(decision, parsed, key, False)
        if refused is not None:
            return decision.end(refused)
        decision.entropy = self._rehearsal.select(key, question).entropy
        decision.member = member
        return self._send(decision, parsed, key, False)

    # ICMP

    def _icmp(self, decision, parsed):
        if parsed.first or parsed.later:
            decision.step('protocol', 'a fragment of ICMP is left to the '
                          'kernel')
            return decision
        head = parsed.part(parsed.transport, 8)
        if head is None:
            decision.step('headers', 'less than the 8 bytes of ICMP')
            return decision.end(Outcome.DROP_MALFORMED)
        if head[0] == _ECHO[parsed.version]:
            return self._echo(decision, parsed)
        if head[0] not in _ERRORS[parsed.version]:
            decision.step('protocol', f'ICMP type {head[0]} is left to the '
                          'kernel')
            return decision
        return self._error(decision, parsed)

    def _echo(self, decision, parsed):
        settings = self.tables.settings
        decision.step('protocol', 'ICMP echo request')
        if NodeFlag.ECHO not in settings.flags:
            decision.step('answer', 'the node does not answer')
            return decision
        if packet.is_martian(parsed.source, parsed.destination):
            decision.step('source', f'{parsed.source} is no client\'s '
                          'address')
            return decision.end(Outcome.DROP_MARTIAN)
        return self._answer(decision, Outcome.ECHO_REPLY, Outcome.PASS)

    def _answer(self, decision, yes, no):
        rate = self.tables.settings.icmp_rate
        decision.limited = bool(rate)
        decision.step('answer', f'the node sends up to {rate} per second and '
                      'CPU; here none was sent before')
        return decision.end(yes if rate else no)

    def _error(self, decision, parsed):
        quoted = _quoted(parsed)
        if quoted is None:
            decision.step('protocol', 'an ICMP error that quotes no flow of '
                          'the VIP')
            return decision.end(Outcome.DROP_ICMP)
        decision.step('protocol', 'an ICMP error about the flow '
                      + flow_text(quoted.protocol, quoted.source,
                                  quoted.source_port, quoted.destination,
                                  quoted.destination_port))
        key = self._find(decision, parsed, quoted.protocol,
                         quoted.destination_port)
        if key is None:
            return decision.end(Outcome.DROP_ICMP)
        if packet.is_martian(parsed.source, parsed.destination):
            decision.step('source', f'{parsed.source} is no router\'s '
                          'address')
            return decision.end(Outcome.DROP_MARTIAN)
        selection = self._rehearsal.select(key, quoted)
        decision.entropy = selection.entropy
        select.by_slot(decision, self.tables, key, selection, quoted, False)
        return self._send(decision, parsed, key, False, quoted=True)

    # The way out

    def _send(self, decision, parsed, key, opens, quoted=False):
        member = decision.member
        if member is None:
            decision.step('member', 'nobody takes it')
            return decision.end(Outcome.DROP_NO_MEMBER)
        decision.step('member', f'{member.address}: '
                      f'{show.member_state(member)}, weight {member.weight}')
        encapsulation = self.tables.services[key].settings.encapsulation
        version = ipaddress.ip_address(member.address).version
        settings = self.tables.settings
        source = settings.source_v6 if version == 6 else settings.source_v4
        if source is None and encapsulation != Encapsulation.DSCP:
            decision.step('outer', f'the node has no outer source of IPv'
                          f'{version}')
            return decision.end(Outcome.DROP_NO_NEXT_HOP)
        if NodeFlag.FIB in settings.flags:
            decision.by_routes = True
            decision.step('uplink', 'the kernel\'s routes are asked: what '
                          'they say is not computed here')
            return decision.end(Outcome.FORWARDED)
        if not self._choose_uplink(decision, version):
            return decision.end(Outcome.DROP_NO_NEXT_HOP)
        return self._fit(decision, parsed, member, version, encapsulation,
                         quoted)

    def _choose_uplink(self, decision, version):
        number = self.tables.choices.of(version, decision.entropy)
        if number is None:
            decision.step('uplink', f'none has a next hop of IPv{version}')
            return False
        uplink = decision.uplink = self.tables.uplinks[number]
        hop = (uplink.gateway_mac_v6 if version == 6
               else uplink.gateway_mac_v4)
        decision.step('uplink', f'{self.tables.interface(uplink.ifindex)}, '
                      f'next hop {hop}, by choice {decision.entropy >> 26} '
                      'of 64')
        return True

    def _fit(self, decision, parsed, member, version, encapsulation, quoted):
        header = outer.overhead(encapsulation, version)
        mtu = min(member.mtu or decision.uplink.mtu, decision.uplink.mtu)
        size = len(parsed.frame) - parsed.network
        decision.step('size', f'{size} bytes and {header} of outer header, '
                      f'the path takes {mtu}')
        if size + header <= mtu:
            return decision.end(Outcome.FORWARDED)
        limit = max(mtu - header, 0)
        if not parsed.dont_fragment and not quoted:
            if NodeFlag.PASS_TOO_BIG in self.tables.settings.flags:
                decision.step('too big', 'without DF: left to the kernel')
                return decision.end(Outcome.PASSED_TOO_BIG)
            decision.step('too big', 'without DF: nobody is told')
            return decision.end(Outcome.DROP_TOO_BIG)
        silent = parsed.later or quoted
        if parsed.version == 4:
            silent = silent or parsed.first or limit < _LIMIT_V4
        else:
            limit = max(limit, _LIMIT_V6)
        if silent:
            decision.step('too big', 'nobody can be told')
            return decision.end(Outcome.DROP_TOO_BIG)
        decision.step('too big', f'the client is told {limit}')
        return self._answer(decision, Outcome.SENT_TOO_BIG,
                            Outcome.DROP_TOO_BIG)


def _payload(parsed):
    return parsed.frame[parsed.transport + 8:parsed.end]


def _describe(parsed):
    ports = parsed.part(parsed.transport, 4)
    source_port = port = 0
    if (parsed.protocol in packet.TRANSPORT_LENGTH and ports
            and not parsed.later and not parsed.wrong):
        source_port, port = struct.unpack('!HH', ports)
    text = flow_text(parsed.protocol, parsed.source, source_port,
                     parsed.destination, port)
    if parsed.protocol == packet.TCP and source_port:
        flags = parsed.part(parsed.transport + 13, 1)
        if flags and flags[0] & packet.OPENING_MASK == packet.SYN:
            text += ', SYN'
    if parsed.vlans:
        text += ', VLAN ' + ' '.join(str(tag & 4095) for tag in parsed.vlans)
    if parsed.first or parsed.later:
        text += ', first fragment' if parsed.first else ', later fragment'
    return text + f', {parsed.length} bytes'


def _quoted(parsed):
    """The client's flow that an ICMP error to a VIP is about, or None."""
    at = parsed.transport + 8
    head = parsed.part(at, 20 if parsed.version == 4 else 40)
    if head is None or head[0] >> 4 != parsed.version:
        return None
    if parsed.version == 4:
        header = 4 * (head[0] & 15)
        if header < 20 or struct.unpack_from('!H', head, 6)[0] & 0x1fff:
            return None
        quote = packet.Parsed(
            parsed.frame, at, 4, packet.text_of(head[12:16]),
            packet.text_of(head[16:20]), end=parsed.end,
            transport=at + header, protocol=head[9])
    else:
        quote = packet.Parsed(
            parsed.frame, at, 6, packet.text_of(head[8:24]),
            packet.text_of(head[24:40]), end=parsed.end, transport=at + 40,
            protocol=head[6])
        if packet.walk_extensions(quote) or quote.later:
            return None
    ports = quote.part(quote.transport, 4)
    if (quote.protocol not in packet.TRANSPORT_LENGTH or ports is None
            or quote.source != parsed.destination):
        return None
    vip_port, client_port = struct.unpack('!HH', ports)
    return Packet(quote.destination, quote.source, quote.protocol,
                  client_port, vip_port)
