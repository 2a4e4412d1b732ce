# SPDX-License-Identifier: Apache-2.0
"""Packets by hand: what clients send and what a node makes of it."""

import socket
import struct

VIP, VIP_V6 = '203.0.113.10', '2001:db8:f::10'
CLIENT, CLIENT_V6 = '192.0.2.7', '2001:db8:c::7'


def checksum(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def udp_packet(source, destination, source_port, destination_port, payload):
    udp = struct.pack('!HHHH', source_port, destination_port,
                      8 + len(payload), 0) + payload
    header = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 1, 0, 57,
                         17, 0, socket.inet_aton(source),
                         socket.inet_aton(destination))
    header = header[:10] + struct.pack('!H', checksum(header)) + header[12:]
    return header + udp


def udp_v4(port, listener, payload, flags=0x4000):
    packet = bytearray(udp_packet(CLIENT, VIP, port, listener,
                                                payload))
    packet[6:8] = struct.pack('!H', flags)
    packet[10:12] = bytes(2)
    packet[10:12] = struct.pack('!H', checksum(
        bytes(packet[:20])))
    return bytes(packet)


def udp_v6(port, listener, payload):
    """Its checksum is nobody's business between its ends."""
    length = 8 + len(payload)
    return (struct.pack('!IHBB', 6 << 28, length, socket.IPPROTO_UDP, 64) +
            socket.inet_pton(socket.AF_INET6, CLIENT_V6) +
            socket.inet_pton(socket.AF_INET6, VIP_V6) +
            struct.pack('!HHHH', port, listener, length, 0xabcd) + payload)


def ethertype(packet):
    return b'\x08\x00' if packet[0] >> 4 == 4 else b'\x86\xdd'


def addresses(packet):
    """(source, destination)"""
    family, start, length = ((socket.AF_INET, 12, 4)
                             if packet[0] >> 4 == 4 else
                             (socket.AF_INET6, 8, 16))
    middle = start + length
    return (socket.inet_ntop(family, packet[start:middle]),
            socket.inet_ntop(family, packet[middle:middle + length]))
