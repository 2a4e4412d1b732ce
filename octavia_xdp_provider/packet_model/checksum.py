# SPDX-License-Identifier: Apache-2.0
"""The Internet checksum (RFC 1071), always over whole messages."""


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


def refreshed(before: bytes, after: bytes, at: int) -> bytes:
    """The checksum at `at` of a message that has become `after`: as right as
    that of `before` was.

    It is computed over the whole message, with its pseudo header: what was
    right gets the checksum of RFC 1071, what was wrong stays wrong by as
    much.
    """
    wrong = words(before) % 0xffff
    total = words(after[:at] + b'\0\0' + after[at + 2:])
    value = (wrong - total) % 0xffff if wrong else total ^ 0xffff
    return value.to_bytes(2, 'big')


def pseudo_header(source: bytes, destination: bytes, length: int,
                  protocol: int) -> bytes:
    """Of IPv6 (RFC 8200, 8.1); its sum is that of IPv4's as well."""
    return (source + destination + length.to_bytes(4, 'big') +
            protocol.to_bytes(4, 'big'))
