# SPDX-License-Identifier: Apache-2.0
"""Capture packets on an interface of a host.

A native XDP program receives and sends packets that a capture on the same
interface does not see. So packets of an LB node are captured at the other end
of its cable, on the router.
"""

import ctypes
import dataclasses
import ipaddress
import select
import socket
import struct
import subprocess
import time

from lab import background
from lab import namespaces
from lab import paths
from lab.fabric import links

ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
SO_RCVBUFFORCE = 33  # asm-generic/socket.h; Python has no name for it
SOL_PACKET, PACKET_STATISTICS = 263, 6  # linux/socket.h, linux/if_packet.h
SNAPSHOT = 65535
BUFFER_BYTES = 1 << 26  # room for about 25,000 packets with their metadata

IPIP = 4


@dataclasses.dataclass(frozen=True)
class Packet:
    """A captured packet.

    `outgoing` is from the point of view of the capturing host, `data` begins
    with the Ethernet header.
    """

    time: float
    outgoing: bool
    data: bytes

    @property
    def is_ipv4(self):
        return self.data[12:14] == b'\x08\x00'

    @property
    def protocol(self):
        """The protocol number in the IPv4 header."""
        return self.data[23]

    @property
    def source(self):
        return str(ipaddress.ip_address(self.data[26:30]))

    @property
    def destination(self):
        return str(ipaddress.ip_address(self.data[30:34]))

    def inner(self):
        """Return the inner packet of an IPIP packet, with its Ethernet."""
        if not self.is_ipv4 or self.protocol != IPIP:
            raise ValueError('no IPIP packet')
        header = 14 + 4 * (self.data[14] & 15)
        return dataclasses.replace(
            self, data=self.data[:14] + self.data[header:])


class Capture(background.Background):
    """Records the packets that pass during a `with` block.

    If some could not be recorded, the end of the block raises LabError.

    :param expression: filter for tcpdump; 'ip proto 4' for example.
    """

    def __init__(self, lab, host, interface, expression=''):
        super().__init__()
        self.packets = []
        with namespaces.inside(lab, host):
            # With protocol 0 the socket receives nothing until bind().
            self._socket = socket.socket(
                socket.AF_PACKET, socket.SOCK_RAW, 0)
        # The kernel limits SO_RCVBUF to less than one download.
        self._socket.setsockopt(
            socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        if expression:
            self._filter(expression)
        self._socket.bind((interface, ETH_P_ALL))

    def __exit__(self, *exception):
        super().__exit__(*exception)
        # struct tpacket_stats: packets, drops
        _, missing = struct.unpack('II', self._socket.getsockopt(
            SOL_PACKET, PACKET_STATISTICS, 8))
        self._socket.close()
        if missing and not any(exception):
            raise paths.LabError(f'{missing} packets were not captured')

    def work(self):
        """Record packets, at the end also those in the socket's queue."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while True:
            ending = self.ending.is_set()
            while poll.poll(0 if ending else 50):
                data, source = self._socket.recvfrom(SNAPSHOT)
                self.packets.append(Packet(
                    time.monotonic(), source[2] == socket.PACKET_OUTGOING,
                    data))
            if ending:
                return

    def _filter(self, expression):
        done = subprocess.run(
            ['tcpdump', '-y', 'EN10MB', '-s', str(SNAPSHOT), '-ddd',
             expression], capture_output=True, text=True)
        if done.returncode:
            raise paths.LabError(f'{expression}: {done.stderr.strip()}')
        _count, *lines = done.stdout.split('\n')
        program = b''.join(struct.pack('HBBI', *map(int, line.split()))
                           for line in lines if line)
        buffer = ctypes.create_string_buffer(program)
        self._socket.setsockopt(
            socket.SOL_SOCKET, SO_ATTACH_FILTER,
            struct.pack('HL', len(program) // 8, ctypes.addressof(buffer)))


def at_node(lab, node, expression=''):
    """Capture packets between an LB node and the router.

    `outgoing` packets go to the node.
    """
    return Capture(lab, links.ROUTER, node, expression)


def packets_to(lab, node):
    """Return how many packets the router has sent to an LB node."""
    with namespaces.link(lab, links.ROUTER) as netlink:
        link = netlink.get_links(namespaces.index(netlink, node))[0]
        return link.get_attr('IFLA_STATS64')['tx_packets']
