# SPDX-License-Identifier: Apache-2.0
"""The hash of a flow, as layout.h defines it, and what derives from it.

Addresses and ports are read as little-endian words.
"""

import struct
import typing

from octavia_xdp_provider.tests.models.packet_model import state

MASK = (1 << 64) - 1
SEED = 0x8e38cb5d3a1f6c27
FIRST = 0xff51afd7ed558ccd
SECOND = 0xc4ceb9fe1a85ec53


class Slot(typing.NamedTuple):
    """A slot of a lookup table with `slots` slots. `before` is None unless the
    slot is open or, with a second chance, changed."""

    number: int
    slots: int
    now: int
    before: int | None
    open: bool = True


class Slots:
    """The lookup tables, as state.Service has them."""

    def look_up(self, service: state.Service, flow: tuple,
                value: int) -> Slot:
        """Return the slot of a flow_of() with the flow_hash() `value`."""
        slots = len(service.now)
        number = flow_slot(value, slots)
        is_open = number in service.open
        before = (service.before[flow_slot(value, len(service.before))]
                  if is_open or number in service.changed else None)
        return Slot(number, slots, service.now[number], before, is_open)


def flow_hash(source: bytes, destination: bytes, ports: bytes,
              protocol: int, seed: int = SEED) -> int:
    """Hash a flow. `ports`: the four bytes in the packet, source first."""
    if len(source) == 4:
        high, low = struct.unpack('<II', source + destination)
        value = seed ^ (high << 32 | low)
    else:
        word = struct.unpack('<8I', source + destination)
        value = seed ^ (word[0] << 32 | word[1])
        value = value * FIRST & MASK
        value ^= value >> 32
        value ^= word[2] << 32 | word[3]
        value = value * SECOND & MASK
        value ^= value >> 29
        value ^= word[4] << 32 | word[5]
        value = value * FIRST & MASK
        value ^= value >> 32
        value ^= word[6] << 32 | word[7]
    source_port, destination_port = struct.unpack('<HH', ports)
    value = value * FIRST & MASK
    value ^= value >> 32
    value ^= protocol << 32 | source_port << 16 | destination_port
    value = value * SECOND & MASK
    value ^= value >> 29
    return value * FIRST & MASK


def flow_slot(value: int, slots: int) -> int:
    return (value >> 32) * slots >> 32


def flow_entropy(value: int) -> int:
    return value & 0xffffffff


def flow_tag(seeded: int) -> int:
    seeded ^= seeded >> 32
    seeded = seeded * SECOND & MASK
    return seeded ^ seeded >> 29


def flow_of(service: state.Service, source: bytes, ports: bytes,
            protocol: int) -> tuple[bytes, bytes, bytes, int]:
    """Return the arguments of flow_hash() for a flow of a service."""
    if service.by_source:
        mask = service.source_mask
        source = bytes(a & b for a, b in zip(source, mask, strict=True))
        return source, service.vip, bytes(4), 0
    return source, service.vip, ports, protocol
