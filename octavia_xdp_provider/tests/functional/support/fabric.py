# SPDX-License-Identifier: Apache-2.0
"""A client, an LB node that scapy plays, and a member, in two namespaces.

    client namespace                                  member namespace
    client's sockets -> lan0 -> lan1 -> Fabric -> gw0 -> eth0 -> VIP on lo
                     <----------------------------- gw0 <- eth0 <-

What clients send to a VIP leaves by lan0; Fabric takes it at lan1, puts into
a tunnel what an LB node would, and sends it to the member. Answers are routed.
"""

import json
import os
import pathlib
import select
import socket
import subprocess
import threading
import unittest
import uuid

from scapy import packet as scapy_packet
from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from lab import namespaces
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support.private_node import command
from octavia_xdp_provider.tests.support import waiting

DATAPATH = pathlib.Path(__file__).parents[4] / 'datapath'
TOOL = DATAPATH / 'build/octavia-xdp-member'

CLIENT, CLIENT6 = '198.51.100.7', '2001:db8:c::7'
VIP, VIP6 = '203.0.113.10', '2001:db8:f::10'
FAMILIES = {4: (socket.AF_INET, VIP), 6: (socket.AF_INET6, VIP6)}
OWN, OWN6 = '10.1.0.1', '2001:db8:1::1'
GATEWAY, GATEWAY6 = '10.1.0.254', '2001:db8:1::fe'
NODE, NODE6 = '10.0.0.17', '2001:db8:0:17::1'
NODES = ('--node', '10.0.0.0/24', '--node', '2001:db8::/48')
MEMBER_MAC = '02:00:00:00:00:01'
GATEWAY_MAC = '02:00:00:00:00:02'
LAN_MAC = '02:00:00:00:00:03'
VIP_MAC = '02:00:00:00:00:04'
SID4, SID6 = '2001:db8:1::4000', '2001:db8:1::6000'
MTU = 1500


def ip(namespace, *lines):
    """Commands of ip in a namespace, by one process."""
    command('ip', '-n', namespace, '-batch', '-', input='\n'.join(lines))


def set_up(namespace, *interfaces):
    ip(namespace, *(f'link set {interface} up' for interface in interfaces))


def added(interface, *addresses):
    """Commands for ip() that give an interface addresses, usable at once."""
    return [f'address add {address} dev {interface}' +
            ' nodad' * (':' in address) for address in addresses]


def parsed(data):
    """IP packet from bytes."""
    return (inet.IP if data[0] >> 4 == 4 else inet6.IPv6)(data)


def recomputed(packet):
    """The same packet with all its checksums computed by scapy."""
    copy = packet.copy()
    layer = copy
    while layer and not isinstance(layer, scapy_packet.NoPayload):
        for name in ('chksum', 'cksum'):
            if name in layer.fields and not isinstance(
                    layer, (inet.IPerror, inet.TCPerror, inet.UDPerror)):
                layer.delfieldval(name)  # and the bytes that it came as
        layer = layer.payload
    return parsed(bytes(copy))


def tunnel(inner, to_sid=False, source=NODE):
    """Return a client's packet as an LB node sends it: in IPIP, or SRv6.

    That is IPIP to a SID: which one says whether the inner packet is IPv4 or
    IPv6, as it must where the kernel takes the packet.
    """
    protocol = 4 if inner[0] >> 4 == 4 else 41
    if to_sid:
        outer = inet6.IPv6(src=NODE6, dst=SID4 if protocol == 4 else SID6,
                           nh=protocol, hlim=64)
    else:
        header = parsed(inner)
        copied = {'flags': 'DF'} if protocol == 41 else {
            'flags': header.flags & 2, 'id': header.id}
        outer = inet.IP(src=source, dst=OWN, proto=protocol, ttl=64, **copied)
    return outer / scapy_packet.Raw(inner)


class Fabric(waiting.Waiting, unittest.TestCase):
    """Namespaces as above; sends to SIDs if ``to_sid``."""

    to_sid = False

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('needs root')
        if not TOOL.exists():
            self.skipTest('the tool is not built (make -C datapath)')
        unique = uuid.uuid4().hex[:8]
        self.member, self.client = f'oxm-m-{unique}', f'oxm-c-{unique}'
        private_node.add_namespaces(self, self.member, self.client)
        self._links()
        self._addresses()
        self.largest = 0
        self.last = None
        self.did_not_fit = threading.Event()
        self._relay()

    def run_in(self, name, *words, **options):
        return command('ip', 'netns', 'exec', name, *words, **options)

    def sysctl(self, name, **values):
        self.run_in(name, 'sysctl', '-qw', *(
            f'net.{key.replace("__", ".")}={value}'
            for key, value in values.items()))

    def tool(self, *words):
        return self.run_in(self.member, str(TOOL), *words)

    def try_tool(self, *words, **options):
        return subprocess.run(
            ('ip', 'netns', 'exec', self.member, str(TOOL)) + words,
            text=True, capture_output=True, **options)

    def setup_member(self, *words):
        return self.tool('setup', '--vip', VIP, '--vip', VIP6, *NODES, *words,
                         'eth0')

    def counters(self):
        return json.loads(self.tool('show', '--json', 'eth0'))['counters']

    def offloads(self, name, interface, *words):
        self.run_in(name, 'ethtool', '-K', interface, *words)

    def socket(self, name, family, kind, protocol=0):
        with namespaces.entered(name):
            opened = socket.socket(family, kind, protocol)
        self.addCleanup(opened.close)
        opened.settimeout(120)
        return opened

    def packets(self, name, interface):
        """Capture whole frames of an interface."""
        all_protocols = socket.htons(3)
        with namespaces.entered(name):
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                   all_protocols)
            opened.bind((interface, 3))
        # SO_RCVBUFFORCE: nothing may be missing
        opened.setsockopt(socket.SOL_SOCKET, 33, 1 << 25)
        self.addCleanup(opened.close)
        return opened

    def send(self, packet):
        """Give the member a packet, from the gateway, if it fits."""
        kind = 0x0800 if isinstance(packet, inet.IP) else 0x86dd
        link = l2.Ether(src=GATEWAY_MAC, dst=MEMBER_MAC, type=kind)
        length = len(bytes(packet))
        if length > MTU:
            self.did_not_fit.set()
            return
        self.largest = max(self.largest, length)
        self._out.send(bytes(link / packet))

    def _links(self):
        private_node.veth((self.member, 'eth0', MEMBER_MAC),
                          (self.client, 'gw0', GATEWAY_MAC), 'mtu', str(MTU))
        private_node.veth((self.client, 'lan0', LAN_MAC),
                          (self.client, 'lan1'))
        for name in (self.member, self.client):
            self.sysctl(name, ipv4__conf__all__rp_filter=0,
                        ipv4__conf__default__rp_filter=0,
                        ipv6__conf__all__accept_dad=0,
                        ipv6__conf__default__accept_dad=0)
        set_up(self.member, 'lo', 'eth0')
        set_up(self.client, 'lo', 'gw0', 'lan0', 'lan1')
        # Tests read lan0's frames as bytes: complete, and with checksums.
        self.offloads(self.client, 'lan0', 'tx', 'off', 'tso', 'off', 'gso',
                      'off')

    def _addresses(self):
        ip(self.member,
           *added('eth0', f'{OWN}/24', f'{OWN6}/64'),
           *(line for gateway in (GATEWAY, GATEWAY6) for line in (
               f'route add default via {gateway}',
               f'neigh add {gateway} dev eth0 lladdr {GATEWAY_MAC}')))
        ip(self.client,
           *added('gw0', f'{GATEWAY}/24', f'{GATEWAY6}/64'),
           *added('lan0', CLIENT, CLIENT6),
           *(line for vip, source in ((VIP, CLIENT), (VIP6, CLIENT6))
             for line in (f'route add {vip} dev lan0 src {source}',
                          f'neigh add {vip} dev lan0 lladdr {VIP_MAC}')))

    def _relay(self):
        self._in = self.packets(self.client, 'lan1')
        self._out = self.packets(self.client, 'gw0')
        stop, self._stop = os.pipe()
        self._relay_thread = threading.Thread(
            target=self._forward, args=(stop,), daemon=True)
        self._relay_thread.start()
        self.addCleanup(os.close, stop)
        self.addCleanup(self.end_relay)

    def end_relay(self):
        """End it before its time, if it uses what is to be closed."""
        if self._stop is not None:
            os.close(self._stop)
            self._stop = None
            self._relay_thread.join()

    def _forward(self, stop):
        while True:
            readable, _, _ = select.select([self._in, stop], [], [])
            if stop in readable:
                return
            frame = self._in.recv(65536)
            if frame[:6] != bytes.fromhex(VIP_MAC.replace(':', '')):
                continue
            self.last = frame[14:]
            self.send(self.through_node(frame))

    def through_node(self, frame):
        """Return a client's frame as an LB node sends it."""
        return tunnel(frame[14:], self.to_sid)
