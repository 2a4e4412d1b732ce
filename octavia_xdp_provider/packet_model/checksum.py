# SPDX-License-Identifier: Apache-2.0
"""The Internet checksum (RFC 1071) and its correction (RFC 1624)."""


def fold(total: int) -> int:
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def words(data: bytes) -> int:
    """Sum of the big-endian words; an odd last byte is padded with 0."""
    if len(data) & 1:
        data += b'\0'
    # A number in base 2^16 and the sum of its digits agree modulo 2^16 - 1,
    # but for which of the two zeroes it is: only all zeroes sum up to 0.
    value = int.from_bytes(data, 'big')
    return (value - 1) % 0xffff + 1 if value else 0


def checksum(data: bytes) -> int:
    return words(data) ^ 0xffff


def corrected(old: int, removed: int, added: int) -> int:
    """`old` after words that sum to `removed` gave way to `added`.

    HC' = ~(~HC + ~m + m'), equation 3.
    """
    return fold((old ^ 0xffff) + (fold(removed) ^ 0xffff) +
                fold(added)) ^ 0xffff


def correct(frame: bytearray, at: int, removed: int, added: int):
    old = frame[at] << 8 | frame[at + 1]
    new = corrected(old, removed, added)
    frame[at] = new >> 8
    frame[at + 1] = new & 0xff
