# SPDX-License-Identifier: Apache-2.0
"""Describes packets and flows."""

import ipaddress

from octavia_xdp_provider.node.types import PROTOCOL_NAMES
from octavia_xdp_provider.packet_model import encap
from octavia_xdp_provider.packet_model import forward
from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state

TUNNELS = {encap.IPIP: 'IPIP', encap.IP6: 'IPv6 in IP', encap.GRE: 'GRE',
           state.UDP: 'GUE or Geneve'}
_NAMES = PROTOCOL_NAMES | {state.ICMP: 'ICMP', state.ICMPV6: 'ICMPv6'}
_OPENING = forward.SYN | forward.FIN | forward.RST | forward.ACK


def address(packed: bytes) -> str:
    """Format an address; IPv4-mapped ones remain IPv6."""
    return str(ipaddress.ip_address(packed))


def flow(protocol: int, source: bytes, destination: bytes,
         ports: bytes = bytes(4)) -> str:
    """:param ports: as in the packet; all zeroes if there are none."""
    name = _NAMES.get(protocol, f'protocol {protocol}')
    begin, end = address(source), address(destination)
    if any(ports):
        begin, end = _with_port(begin, ports[:2]), _with_port(end, ports[2:])
    return f'{name} {begin} -> {end}'


def _with_port(text: str, port: bytes) -> str:
    number = int.from_bytes(port, 'big')
    return f'[{text}]:{number}' if ':' in text else f'{text}:{number}'


def vlans(packet: parse.Packet) -> tuple[int, ...]:
    """Return the tags with their priorities, the outermost first."""
    return tuple(int.from_bytes(packet.frame[at:at + 2], 'big')
                 for at in range(14, packet.network - 2, 4))


def traffic_class(packet: parse.Packet) -> int:
    """Return the byte of DSCP and ECN."""
    frame, network = packet.frame, packet.network
    if packet.family == state.IPV4:
        return frame[network + 1]
    return frame[network] << 4 & 0xf0 | frame[network + 1] >> 4


def ports(packet: parse.Packet) -> bytes:
    """Return the ports as in the packet; all zeroes if it has none."""
    data = packet.frame[packet.transport:packet.transport + 4]
    if packet.protocol in parse.HEADER and len(data) == 4 and (
            not packet.later):
        return data
    return bytes(4)


def packet(parsed: parse.Packet) -> str:
    whole = parsed.wrong is None
    text = flow(parsed.protocol, parsed.source, parsed.destination,
                ports(parsed) if whole else bytes(4))
    if whole and not parsed.later and parsed.protocol == state.TCP and (
            parsed.frame[parsed.transport + 13] & _OPENING == forward.SYN):
        text += ', SYN'
    if tags := vlans(parsed):
        text += ', VLAN ' + ' '.join(str(tag & 4095) for tag in tags)
    if parsed.first or parsed.later:
        text += ', first fragment' if parsed.first else ', later fragment'
    return text + f', {parsed.end - parsed.network} bytes'
