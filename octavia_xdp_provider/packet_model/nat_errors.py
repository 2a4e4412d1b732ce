# SPDX-License-Identifier: Apache-2.0
"""ICMP errors in the other family: RFC 7915, sections 4.2 and 5.2."""

import struct

from octavia_xdp_provider.packet_model import state

LEAST = 1280
DIFFERENCE = 20  # of headers

# (type, code) to (type, code); those that are not there have no equivalent.
# Their second word is 0 but where `other` says more.
TO_V6 = {(3, 0): (1, 0), (3, 1): (1, 0), (3, 2): (4, 1), (3, 3): (1, 4),
         (3, 4): (2, 0), (3, 5): (1, 0), (3, 6): (1, 0), (3, 7): (1, 0),
         (3, 8): (1, 0), (3, 9): (1, 1), (3, 10): (1, 1), (3, 11): (1, 0),
         (3, 12): (1, 0), (3, 13): (1, 1), (3, 15): (1, 1), (12, 0): (4, 0),
         (12, 2): (4, 0)}
TO_V4 = {(1, 0): (3, 1), (1, 1): (3, 10), (1, 2): (3, 1), (1, 3): (3, 1),
         (1, 4): (3, 3), (4, 0): (12, 0), (4, 1): (3, 2)}
# Fields of the header: of which byte to which.
POINTER_TO_V6 = {0: 0, 1: 1, 2: 4, 3: 4, 8: 7, 9: 6,
                 **dict.fromkeys(range(12, 16), 8),
                 **dict.fromkeys(range(16, 20), 24)}
POINTER_TO_V4 = {0: 0, 1: 1, 4: 2, 5: 2, 6: 9, 7: 8,
                 **dict.fromkeys(range(8, 24), 12),
                 **dict.fromkeys(range(24, 40), 16)}


def other(head: bytes, family: int) -> bytes | None:
    """The first eight bytes of a message in `family`, checksum 0."""
    kind, code, second = struct.unpack('!BBxxI', head)
    if family == state.IPV6:
        told = _to_v6(kind, code, second)
    else:
        told = _to_v4(kind, code, second)
    return None if told is None else struct.pack('!BBHI', *told[0], 0,
                                                 told[1])


def _to_v6(kind: int, code: int, second: int):
    if kind == 11:
        return (3, code), 0
    found = TO_V6.get((kind, code))
    if found is None:
        return None
    if kind == 12:
        pointer = POINTER_TO_V6.get(second >> 24)
        return None if pointer is None else (found, pointer)
    if found == (4, 1):
        return found, 6  # the next header
    if found == (2, 0):
        return found, max((second & 0xffff) + DIFFERENCE, LEAST)
    return found, 0


def _to_v4(kind: int, code: int, second: int):
    if kind == 3:
        return (11, code), 0
    if kind == 2:
        mtu = second - DIFFERENCE & 0xffffffff
        return (3, 4), min(mtu, 0xffff)
    found = TO_V4.get((kind, code))
    if found is None:
        return None
    if found == (12, 0):
        pointer = POINTER_TO_V4.get(second)
        return None if pointer is None else (found, pointer << 24)
    return found, 0
