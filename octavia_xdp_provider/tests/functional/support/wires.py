# SPDX-License-Identifier: Apache-2.0
"""Frames as a node with real devices takes and sends them."""

import select
import socket
import struct
import time

from lab import namespaces
from lab import processes
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import routed

NODE = routed.NODE
_ETH_P_ALL = 3
_SO_RCVBUFFORCE = 33
# linux/if_packet.h
_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_AUXDATA = struct.Struct('=IIIHHHH')
_VLAN_VALID = 1 << 4


class Wire:
    """A router's end of its link to the node."""

    def __init__(self, case, host, link, name='node'):
        self.mac = bytes.fromhex(case.mac(host, name).replace(':', ''))
        self.node = bytes.fromhex(case.mac(NODE, link).replace(':', ''))
        # Any program does: without one, veth takes no frames of XDP, or
        # with GRO queues them and wakes nobody (seen on Linux 6.18).
        processes.run(case.lab, host, [
            str(private_node.BUILD / 'octavia-xdp-member'), 'setup',
            '--any-source', name])
        with namespaces.inside(case.lab, host):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                        socket.htons(_ETH_P_ALL))
        case.addCleanup(self.socket.close)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 24)
        self.socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self.socket.bind((name, _ETH_P_ALL))

    def receive(self):
        """The next frame, None if it left here. The kernel has taken the
        outermost tag off."""
        frame, notes, _, origin = self.socket.recvmsg(
            65536, socket.CMSG_SPACE(_AUXDATA.size))
        if origin[2] == socket.PACKET_OUTGOING:
            return None
        for _level, _type, data in notes:
            status, *_, tci, protocol = _AUXDATA.unpack(data[:_AUXDATA.size])
            if status & _VLAN_VALID:
                frame = frame[:12] + struct.pack('!HH', protocol,
                                                 tci) + frame[12:]
        return frame

    def send(self, packet, tag=b''):
        self.socket.send(self.node + self.mac + tag +
                         frames.ethertype(packet) + packet)


class Wires(routed.MonitoredUplinks):
    """Packets with a number in them, that leave to one router or another."""

    def setUp(self):
        super().setUp()
        self.wires = {host: Wire(self, host, f'eth{number}')
                      for number, host in enumerate(routed.ROUTERS,
                                                    start=1)}

    def command(self, host, *words):
        processes.run(self.lab, host, words)

    def serve(self, listener, *members, vip=frames.VIP, **settings):
        key = datapath.Key(vip, 'UDP', listener)
        self.datapath.set_service(
            key, [datapath.Member(address) for address in members],
            datapath.Settings(slots=1009, **settings))
        return key

    def receive(self, wanted):
        """(router, frame) of the next frame for which `wanted` holds."""
        end = time.monotonic() + self.SOON
        by_socket = {wire.socket: host for host, wire in self.wires.items()}
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select(list(by_socket), [], [], left)
            for readable_socket in readable:
                frame = self.wires[by_socket[readable_socket]].receive()
                if frame and wanted(frame):
                    return by_socket[readable_socket], frame
        self.fail('no such frame has come')

    def exchange(self, router, packet):
        """Where a packet leaves to that the router sends; and its frame."""
        self.wires[router].send(packet)
        return self.receive(lambda frame: frame.endswith(packet))

    def assert_left(self, router, packet, outer, came=None):
        """To this router, from the device there, with such a header."""
        host, frame = self.exchange(came or router, packet)
        wire = self.wires[host]
        self.assertEqual(router, host)
        self.assertEqual((wire.mac, wire.node), (frame[:6], frame[6:12]))
        self.assertEqual(frames.ethertype(frame[14:]), frame[12:14])
        self.assertEqual(outer, frames.addresses(frame[14:]))

    def assert_dropped(self, router, packet, outcome, count=1):
        before = self.datapath.outcomes()[outcome].packets
        self.wires[router].send(packet)
        self.wait(outcome.name,
                  lambda: self.datapath.outcomes()[outcome].packets
                  == before + count)
