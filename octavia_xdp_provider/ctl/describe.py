# SPDX-License-Identifier: Apache-2.0
"""Describes packets and flows."""

from octavia_xdp_provider.ctl import frame as frames
from octavia_xdp_provider.node.types import PROTOCOL_NAMES

TUNNELS = {frames.IPIP: 'IPIP', frames.IP6: 'IPv6 in IP', frames.GRE: 'GRE',
           frames.UDP: 'GUE or Geneve'}
_NAMES = PROTOCOL_NAMES | {frames.ICMP: 'ICMP', frames.ICMPV6: 'ICMPv6'}
_SYN, _FIN, _RST, _ACK = 2, 1, 4, 16


def flow(protocol: int, source: bytes, destination: bytes,
         ports: bytes = bytes(4)) -> str:
    """:param ports: as in the packet; all zeroes if there are none."""
    name = _NAMES.get(protocol, f'protocol {protocol}')
    begin, end = frames.address(source), frames.address(destination)
    if any(ports):
        begin, end = _with_port(begin, ports[:2]), _with_port(end, ports[2:])
    return f'{name} {begin} -> {end}'


def _with_port(text: str, port: bytes) -> str:
    number = int.from_bytes(port, 'big')
    return f'[{text}]:{number}' if ':' in text else f'{text}:{number}'


def vlans(packet: frames.Packet) -> tuple[int, ...]:
    """Return the tags with their priorities, the outermost first."""
    return tuple(int.from_bytes(packet.frame[at:at + 2], 'big')
                 for at in range(14, packet.network - 2, 4))


def traffic_class(packet: frames.Packet) -> int:
    """Return the byte of DSCP and ECN."""
    frame, network = packet.frame, packet.network
    if packet.family == frames.IPV4:
        return frame[network + 1]
    return frame[network] << 4 & 0xf0 | frame[network + 1] >> 4


def packet(decoded: frames.Packet) -> str:
    whole = decoded.wrong is None
    text = flow(decoded.protocol, decoded.source, decoded.destination,
                decoded.ports if whole else bytes(4))
    if whole and not decoded.later and decoded.protocol == frames.TCP:
        flags = decoded.frame[decoded.transport + 13]
        if flags & (_SYN | _FIN | _RST | _ACK) == _SYN:
            text += ', SYN'
    if tags := vlans(decoded):
        text += ', VLAN ' + ' '.join(str(tag & 4095) for tag in tags)
    if decoded.first or decoded.later:
        text += ', first fragment' if decoded.first else ', later fragment'
    return text + f', {decoded.end - decoded.network} bytes'
