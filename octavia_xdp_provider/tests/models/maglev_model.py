# SPDX-License-Identifier: Apache-2.0
"""Maglev in plain Python, from the paper and from nothing else.

Eisenbud et al., NSDI 2016, section 3.4, pseudocode 1, with the hash functions
and the rule for weights that datapath/lib/table/maglev.c states. Slow and
literal on purpose: what the library computes is compared with it.
"""

import ipaddress

MASK = (1 << 64) - 1
OFFSET_SEED = 0x6f66667365740001
SKIP_SEED = 0x736b697000000002


def fnv1a_fmix64(name: bytes, seed: int) -> int:
    value = 0xcbf29ce484222325 ^ seed
    for byte in name:
        value = (value ^ byte) * 0x100000001b3 & MASK
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        value ^= value >> 33
        value = value * factor & MASK
    return value ^ value >> 33


def name_of(member: str) -> bytes:
    """The name of ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT."""
    address, port = member, b''
    if member.startswith('[') or member.count(':') == 1:
        address, _, number = member.rpartition(':')
        port = int(number).to_bytes(2, 'big')
    parsed = ipaddress.ip_address(address.strip('[]'))
    if parsed.version == 4:
        return bytes(10) + b'\xff\xff' + parsed.packed + port
    return parsed.packed + port


def takes_turn(turn: int, weight: int, greatest: int) -> bool:
    return ((turn + 1) * weight // greatest > turn * weight // greatest)


def slot_count(weights: dict[str, int]) -> int:
    """How many slots members of these weights need, by the rule that
    datapath/lib/table/slot_count.c states."""
    given = [weight for weight in weights.values() if weight]
    equal = -(-sum(given) // min(given)) if given else 1
    wanted = 100 * min(equal, 4 * max(len(given), 1))
    return next(size for size in (1021, 4093, 16381, 65521, 262139, 1048573)
                if size >= wanted)


def populate(weights: dict[str, int], size: int) -> list[str | None]:
    """The member of each slot, from {member: weight}; see name_of()."""
    members = sorted((address for address in weights if weights[address]),
                     key=name_of)
    entry: list[str | None] = [None] * size
    if not members:
        return entry
    greatest = max(weights.values())
    offset = {member: fnv1a_fmix64(name_of(member), OFFSET_SEED) % size
              for member in members}
    skip = {member: fnv1a_fmix64(name_of(member), SKIP_SEED) % (size - 1) + 1
            for member in members}
    position = dict.fromkeys(members, 0)
    filled = turn = 0
    while True:
        for member in members:
            if not takes_turn(turn, weights[member], greatest):
                continue
            while True:
                slot = (offset[member]
                        + position[member] * skip[member]) % size
                position[member] += 1
                if entry[slot] is None:
                    break
            entry[slot] = member
            filled += 1
            if filled == size:
                return entry
        turn += 1
