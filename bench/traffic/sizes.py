# SPDX-License-Identifier: Apache-2.0
"""Limits of frame sizes, in bytes without FCS."""

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


# Thousands of VIPs are parsed repeatedly.
@functools.lru_cache(2 * formats.constants.DESTINATIONS_MAX)
def address_of(text: str):
    """Parse an address of either version.

    :raises BenchError: it is malformed.
    """
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise errors.BenchError(f'destination: {error}') from None


def _ip(address: str) -> int:
    return 20 if address_of(address).version == 4 else 40


def smallest(destination: interface.Destination, kind: str) -> int:
    """Return the smallest frame with a signature (a SYN's sequence number)."""
    headers = ETHERNET + _ip(destination.address)
    if kind == 'syn':
        return headers + TCP
    signature = formats.constants.SIGNATURE_LENGTH
    return headers + signature + {
        'tcp': TCP, 'udp': UDP,
        'quic': UDP + formats.constants.QUIC_SHORT_LENGTH,
    }[destination.protocol]


def largest(destination: interface.Destination, kind: str) -> int:
    """Return the largest frame: live frames fit a page, SYNs have options."""
    if kind == 'syn':
        return smallest(destination, kind) + TCP_OPTIONS_MAX
    return formats.constants.FRAME_MAX


def opening(destination: interface.Destination) -> int:
    """Return the size of the packet that opens a flow."""
    headers = ETHERNET + _ip(destination.address)
    if destination.protocol == 'tcp':
        return headers + TCP + 4
    return headers + UDP + formats.constants.QUIC_INITIAL_DATAGRAM


def check(profile: interface.Profile) -> None:
    """:raises BenchError: a size cannot be sent to a destination."""
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
    """Repeat each size by its weight, reduced to lowest terms.

    :raises BenchError: the reduced weights are too large.
    """
    divisor = math.gcd(*(weight for _, weight in sizes))
    total = sum(weight for _, weight in sizes) // divisor
    if total > formats.constants.SIZES_MAX:
        raise errors.BenchError(
            f'weights of sizes: their sum is {total} in the least terms, more '
            f'than {formats.constants.SIZES_MAX}; round them')
    return [size for size, weight in sizes for _ in range(weight // divisor)]
