# SPDX-License-Identifier: Apache-2.0
import ipaddress
import secrets

CONFIGURATION = 0  # in the first three bits


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _bit in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def server_id(member_address, port=None):
    """Four bytes that lead packets to a member.

    port: only if the address has a lower one in the pool
    """
    address = ipaddress.ip_address(member_address)
    if address.version == 4:
        address = ipaddress.ip_address(f'::ffff:{address}')
    name = address.packed
    if port:
        name += port.to_bytes(2, 'big')
    return crc32c(name).to_bytes(4, 'big')


def connection_id(member_address, length=12):
    """A new connection ID of 9 to 20 bytes."""
    first = CONFIGURATION << 5 | (length - 1)
    return (bytes([first]) + server_id(member_address)
            + secrets.token_bytes(length - 5))
