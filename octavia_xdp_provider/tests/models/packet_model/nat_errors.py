# SPDX-License-Identifier: Apache-2.0
"""Translates ICMP errors to the other family: RFC 7915, 4.2 and 5.2."""

import struct

from octavia_xdp_provider.tests.models.packet_model import state

LEAST = 1280
DIFFERENCE = 20  # bytes between the IPv4 and IPv6 headers

# (type, code) to (type, code); missing ones have no equivalent. The second
# word of the message is 0 unless `other` sets it.
TO_V6 = {(3, 0): (1, 0), (3, 1): (1, 0), (3, 2): (4, 1), (3, 3): (1, 4),
         (3, 4): (2, 0), (3, 5): (1, 0), (3, 6): (1, 0), (3, 7): (1, 0),
         (3, 8): (1, 0), (3, 9): (1, 1), (3, 10): (1, 1), (3, 11): (1, 0),
         (3, 12): (1, 0), (3, 13): (1, 1), (3, 15): (1, 1), (12, 0): (4, 0),
         (12, 2): (4, 0)}
TO_V4 = {(1, 0): (3, 1), (1, 1): (3, 10), (1, 2): (3, 1), (1, 3): (3, 1),
         (1, 4): (3, 3), (4, 0): (12, 0), (4, 1): (3, 2)}
# Offsets of header fields, from one family to the other.
POINTER_TO_V6 = {0: 0, 1: 1, 2: 4, 3: 4, 8: 7, 9: 6,
                 **dict.fromkeys(range(12, 16), 8),
                 **dict.fromkeys(range(16, 20), 24)}
POINTER_TO_V4 = {0: 0, 1: 1, 4: 2, 5: 2, 6: 9, 7: 8,
                 **dict.fromkeys(range(8, 24), 12),
                 **dict.fromkeys(range(24, 40), 16)}


def other(head: bytes, family: int) -> bytes | None:
    """Return the first eight bytes of a message in `family`, checksum 0."""
    kind, code, second = struct.unpack('!BBxxI', head)
    if family == state.IPV6:
        translated = _to_v6(kind, code, second)
    else:
        translated = _to_v4(kind, code, second)
    return None if translated is None else struct.pack(
        '!BBHI', *translated[0], 0, translated[1])


def _to_v6(kind: int, code: int, second: int):
    if kind == 11:
        return (3, code), 0
    name = TO_V6.get((kind, code))
    if name is None:
        return None
    if kind == 12:
        pointer = POINTER_TO_V6.get(second >> 24)
        return None if pointer is None else (name, pointer)
    if name == (4, 1):
        return name, 6  # offset of the next header field
    if name == (2, 0):
        return name, max((second & 0xffff) + DIFFERENCE, LEAST)
    return name, 0


def _to_v4(kind: int, code: int, second: int):
    if kind == 3:
        return (11, code), 0
    if kind == 2:
        mtu = second - DIFFERENCE & 0xffffffff
        return (3, 4), min(mtu, 0xffff)
    name = TO_V4.get((kind, code))
    if name is None:
        return None
    if name == (12, 0):
        pointer = POINTER_TO_V4.get(second)
        return None if pointer is None else (name, pointer << 24)
    return name, 0
