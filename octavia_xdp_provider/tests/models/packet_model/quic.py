# SPDX-License-Identifier: Apache-2.0
"""QUIC: connection IDs with server IDs, and packets that open connections."""

CONFIG = 0
ID_LENGTH = 4
VERSION_2 = 0x6b3343cf


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _table()


def server_id(address: bytes, port: int = 0) -> bytes:
    """Return the CRC-32C of the address in 16 bytes and the port in 2.

    :param port: the port if another member has the same address and a lower
        port, else 0, which is left out.
    """
    if len(address) == 4:
        address = bytes(10) + b'\xff\xff' + address
    if port:
        address += port.to_bytes(2, 'big')
    value = 0xffffffff
    for byte in address:
        value = value >> 8 ^ _CRC[(value ^ byte) & 0xff]
    return (value ^ 0xffffffff).to_bytes(4, 'big')


def opens(payload: bytes) -> bool:
    """Whether the payload is a long header packet of type Initial."""
    if len(payload) < 5 or not payload[0] & 0x80:
        return False
    version = int.from_bytes(payload[1:5], 'big')
    initial = 1 if version == VERSION_2 else 0
    return version != 0 and payload[0] >> 4 & 3 == initial


def find_server(payload: bytes) -> bytes | None:
    """Return the server ID if the connection ID carries one."""
    if not payload:
        return None
    if payload[0] & 0x80:
        if len(payload) < 6 or payload[5] < 1 + ID_LENGTH:
            return None
        connection = payload[6:6 + 1 + ID_LENGTH]
    elif payload[0] & 0x40:
        connection = payload[1:2 + ID_LENGTH]
    else:
        return None
    if len(connection) < 1 + ID_LENGTH or connection[0] >> 5 != CONFIG:
        return None
    return connection[1:]
