# SPDX-License-Identifier: Apache-2.0
"""The Internet checksum (RFC 1071), always over whole messages."""


def words(data: bytes) -> int:
    """Return the sum of big-endian words; an odd byte is padded with 0."""
    if len(data) & 1:
        data += b'\0'
    # A number in base 2^16 and the sum of its digits are congruent modulo
    # 2^16 - 1. Of the two zeroes, 0 results from all zeroes only.
    value = int.from_bytes(data, 'big')
    return (value - 1) % 0xffff + 1 if value else 0


def checksum(data: bytes) -> int:
    return words(data) ^ 0xffff


def refreshed(before: bytes, after: bytes, at: int) -> bytes:
    """Return the checksum field at `at` after a message became `after`.

    Both messages include their pseudo header. If the checksum in `before` was
    correct, the new one is that of RFC 1071; otherwise it is wrong by the same
    amount.
    """
    wrong = words(before) % 0xffff
    total = words(after[:at] + b'\0\0' + after[at + 2:])
    value = (wrong - total) % 0xffff if wrong else total ^ 0xffff
    return value.to_bytes(2, 'big')


def pseudo_header(source: bytes, destination: bytes, length: int,
                  protocol: int) -> bytes:
    """Return that of IPv6 (RFC 8200, 8.1); IPv4's has the same sum."""
    return (source + destination + length.to_bytes(4, 'big') +
            protocol.to_bytes(4, 'big'))
