# SPDX-License-Identifier: Apache-2.0
"""How small and how large frames may be, in bytes, without FCS."""

import functools
import ipaddress
import math

from bench import errors
from bench.traffic import formats
from bench.traffic import interface

ETHERNET = 14
TCP = 20
UDP = 8
TCP_OPTIONS_MAX = 40


# Of thousands of VIPs, each time that they are asked for.
@functools.lru_cache(2 * formats.constants.DESTINATIONS_MAX)
def address_of(text: str):
    """An address of either version, parsed.

    :raises BenchError: it is none.
    """
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise errors.BenchError(f'destination: {error}') from None


def _ip(address: str) -> int:
    return 20 if address_of(address).version == 4 else 40


def smallest(destination: interface.Destination, kind: str) -> int:
    """What carries the signature (that of a SYN is its sequence number)."""
    headers = ETHERNET + _ip(destination.address)
    if kind == 'syn':
        return headers + TCP
    signature = formats.constants.SIGNATURE_LENGTH
    return headers + signature + {
        'tcp': TCP, 'udp': UDP,
        'quic': UDP + formats.constants.QUIC_SHORT_LENGTH,
    }[destination.protocol]


def largest(destination: interface.Destination, kind: str) -> int:
    """Live frames have to fit a page; a SYN has nothing but options."""
    if kind == 'syn':
        return smallest(destination, kind) + TCP_OPTIONS_MAX
    return formats.constants.FRAME_MAX


def opening(destination: interface.Destination) -> int:
    """Of the packet that opens a flow."""
    headers = ETHERNET + _ip(destination.address)
    if destination.protocol == 'tcp':
        return headers + TCP + 4
    return headers + UDP + formats.constants.QUIC_INITIAL_DATAGRAM


def check(profile: interface.Profile) -> None:
    """:raises BenchError: a size that cannot be sent to a destination."""
    for size, weight in profile.sizes:
        if weight < 1:
            raise errors.BenchError(
                f'frames of {size} bytes have the weight {weight}; at least 1')
    alike = {(_ip(each.address), each.protocol): each
             for each in profile.destinations}
    for destination in alike.values():
        low = smallest(destination, profile.kind)
        high = largest(destination, profile.kind)
        for size, _ in profile.sizes:
            if not low <= size <= high:
                raise errors.BenchError(
                    f'frames of {size} bytes to {destination.address} '
                    f'({destination.protocol}, {profile.kind}): from {low} '
                    f'to {high} are possible; with fewer there is no room '
                    'for the signature by which packets are counted')


def expanded(sizes: tuple[tuple[int, int], ...]) -> list[int]:
    """Each size as often as its weight says, of the least common terms.

    :raises BenchError: they have none that are small enough.
    """
    divisor = math.gcd(*(weight for _, weight in sizes))
    total = sum(weight for _, weight in sizes) // divisor
    if total > formats.constants.SIZES_MAX:
        raise errors.BenchError(
            f'weights of sizes: their sum is {total} in the least terms, more '
            f'than {formats.constants.SIZES_MAX}; round them')
    return [size for size, weight in sizes for _ in range(weight // divisor)]
