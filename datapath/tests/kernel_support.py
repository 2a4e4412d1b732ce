# SPDX-License-Identifier: Apache-2.0
"""Shared by tests on other kernels: namespaces and packets."""

import contextlib
import ctypes
import os
import pathlib
import socket
import struct
import subprocess

CLIENT = '192.0.2.7'
VIP = '203.0.113.10'
CLIENT_PORT = 40000
PORT = 8080
ETH_P_IP = 0x0800
CLONE_NEWNET = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)


def ip(*arguments):
    subprocess.run(['ip', *arguments], check=True)


def enter(namespace):
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), 'setns')


class Namespace:
    """A network namespace whose name is unique to this run."""

    def __init__(self, role):
        self.name = f'oxp-ipip-{os.getpid()}-{role}'
        ip('netns', 'add', self.name)

    def delete(self):
        ip('netns', 'delete', self.name)

    def ip(self, *arguments):
        ip('-n', self.name, *arguments)

    @contextlib.contextmanager
    def inside(self):
        """Move this thread, its sockets and /proc/net to the namespace."""
        with open('/proc/thread-self/ns/net') as before:
            with open(f'/run/netns/{self.name}') as own:
                enter(own.fileno())
            try:
                yield
            finally:
                enter(before.fileno())

    def socket(self, *arguments):
        with self.inside():
            return socket.socket(*arguments)

    def sysctl(self, name, value):
        path = '/proc/sys/' + name.replace('.', '/')
        with self.inside():
            pathlib.Path(path).write_text(value)

    def mac(self, interface):
        text = subprocess.check_output(
            ['ip', 'netns', 'exec', self.name,
             'cat', f'/sys/class/net/{interface}/address'], text=True)
        return bytes.fromhex(text.strip().replace(':', ''))

    def counter(self, name):
        """Return a counter of /proc/net/netstat."""
        with self.inside():
            text = pathlib.Path('/proc/thread-self/net/netstat').read_text()
        lines = iter(text.splitlines())
        for names, values in zip(lines, lines, strict=True):
            counters = dict(zip(names.split(), values.split(), strict=True))
            if name in counters:
                return int(counters[name])
        raise KeyError(name)


def checksum(data):
    """Return the checksum of RFC 1071."""
    data += b'\0' * (len(data) % 2)
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ipv4(source, destination, protocol, payload):
    header = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(payload), 0, 0,
                         64, protocol, 0, socket.inet_aton(source),
                         socket.inet_aton(destination))
    return (header[:10] + struct.pack('!H', checksum(header)) +
            header[12:] + payload)


def with_checksum(protocol, segment, offset):
    pseudo = (socket.inet_aton(CLIENT) + socket.inet_aton(VIP) +
              struct.pack('!BBH', 0, protocol, len(segment)))
    value = struct.pack('!H', checksum(pseudo + segment))
    return segment[:offset] + value + segment[offset + 2:]


def udp(payload):
    segment = struct.pack('!HHHH', CLIENT_PORT, PORT, 8 + len(payload),
                          0) + payload
    return ipv4(CLIENT, VIP, socket.IPPROTO_UDP,
                with_checksum(socket.IPPROTO_UDP, segment, 6))


def tcp(flags, sequence, acknowledge=0, payload=b''):
    segment = struct.pack('!HHIIBBHHH', CLIENT_PORT, PORT, sequence,
                          acknowledge, 0x50, flags, 65535, 0, 0) + payload
    return ipv4(CLIENT, VIP, socket.IPPROTO_TCP,
                with_checksum(socket.IPPROTO_TCP, segment, 16))
