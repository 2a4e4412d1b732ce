# SPDX-License-Identifier: Apache-2.0
"""Describes a frame in a short text, even if only its beginning is known."""

import ipaddress
import struct

_ETHERNET = 14
_PROTOCOLS = {1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'icmpv6', 132: 'sctp'}
_INNER = {4: 4, 41: 6}  # protocol → IP version
_GENEVE_PORT = 6081
_GENEVE_TYPES = {0x0800: 4, 0x86dd: 6}
_FLAGS = 'FSRPAU'


def frame(data: bytes) -> str:
    """Return addresses, ports and TCP flags, including those in a tunnel."""
    if len(data) < _ETHERNET:
        return 'cut short'
    kind = int.from_bytes(data[12:14], 'big')
    if kind not in _GENEVE_TYPES:
        return f'EtherType {kind:#06x}'
    return packet(data[_ETHERNET:], _GENEVE_TYPES[kind])


def packet(data: bytes, version: int) -> str:
    """Describe an IP packet."""
    header = 20 if version == 4 else 40
    if len(data) < header or data[0] >> 4 != version:
        return 'cut short, or no IP'
    if version == 4:
        header = 4 * (data[0] & 15)
        protocol, source, destination = data[9], data[12:16], data[16:20]
        later = int.from_bytes(data[6:8], 'big') & 0x1fff
    else:
        protocol, source, destination = data[6], data[8:24], data[24:40]
        later = 0
    ends = [str(ipaddress.ip_address(end)) for end in (source, destination)]
    rest = data[header:]
    if later:
        return f'{_name(protocol)} {ends[0]} > {ends[1]}, a later fragment'
    if protocol in _INNER:
        return (f'{ends[0]} > {ends[1]}, in it '
                + packet(rest, _INNER[protocol]))
    return _with_ports(protocol, ends, rest)


def _with_ports(protocol: int, ends: list[str], rest: bytes) -> str:
    name = _name(protocol)
    if protocol not in (6, 17, 132) or len(rest) < 4:
        return f'{name} {ends[0]} > {ends[1]}'
    ports = struct.unpack_from('!HH', rest)
    texts = [f'[{end}]:{port}' if ':' in end else f'{end}:{port}'
             for end, port in zip(ends, ports, strict=True)]
    text = f'{name} {texts[0]} > {texts[1]}'
    if protocol == 6 and len(rest) > 13:
        flags = ''.join(letter for bit, letter in enumerate(_FLAGS)
                        if rest[13] >> bit & 1)
        return f'{text} [{flags}]'
    if protocol == 17 and ports[1] == _GENEVE_PORT and len(rest) >= 16:
        kind, vni = struct.unpack_from('!HI', rest, 10)
        if kind in _GENEVE_TYPES:
            return (f'{text}, Geneve {vni >> 8}, in it '
                    + packet(rest[16 + 4 * (rest[8] & 0x3f):],
                             _GENEVE_TYPES[kind]))
    return text


def _name(protocol: int) -> str:
    return _PROTOCOLS.get(protocol, f'protocol {protocol}')
