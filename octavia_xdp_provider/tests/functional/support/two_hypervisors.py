# SPDX-License-Identifier: Apache-2.0
"""A second hypervisor on the fabric, with a VM of the same fixed addresses.

    hypervisor: eth0 - gw0 - client namespace - gw1 - eth0: other hypervisor

The client's namespace is the router between them, too. ``hosts`` are both;
the first is HypervisorWithVm's own.
"""

import ipaddress
import socket
import struct
import types as python_types
import uuid

from scapy import packet as scapy_packet
from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from lab import namespaces
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support.hypervisor import LIBRARY

OTHER, OTHER6 = '10.1.1.1', '2001:db8:1:1::1'
OTHER_GATEWAY, OTHER_GATEWAY6 = '10.1.1.254', '2001:db8:1:1::fe'
OTHER_MAC, OTHER_GATEWAY_MAC = '02:00:00:00:01:01', '02:00:00:00:01:02'
OTHER_SID = '2001:db8:1:2:3:5::'
PEERS = ('10.1.0.0/16', '2001:db8:1::/48')
# By the outer header: the ends of the tunnels, of the first and the second.
ENDS = {'geneve': (fabric.OWN, OTHER), 'geneve6': (fabric.OWN6, OTHER6),
        'srv6': (hypervisor.SID, OTHER_SID)}


class TwoHypervisors(hypervisor.HypervisorWithVm):
    """``order``: the numbers of the hypervisors to which LB nodes send, the
    second one, if there is one, as the alternative."""

    def setUp(self):
        self.ready = False
        super().setUp()
        self.kind, self.order = 'geneve', (0,)
        self.other = f'oxh-o-{uuid.uuid4().hex[:8]}'
        fabric.command('ip', 'netns', 'add', self.other)
        self.addCleanup(fabric.command, 'ip', 'netns', 'del', self.other)
        self._wire()
        self._start_other()
        self.macs = ((fabric.MEMBER_MAC, fabric.GATEWAY_MAC, self._out),
                     (OTHER_MAC, OTHER_GATEWAY_MAC,
                      self.packets(self.client, 'gw1')))
        # before the socket that it sends by is closed
        self.addCleanup(self.end_relay)
        self.ready = True

    def _wire(self):
        fabric.command(
            'ip', '-n', self.other, 'link', 'add', 'eth0', 'address',
            OTHER_MAC, 'type', 'veth', 'peer', 'name', 'gw1', 'address',
            OTHER_GATEWAY_MAC, 'netns', self.client)
        self.sysctl(self.other, ipv4__conf__all__rp_filter=0,
                    ipv4__conf__default__rp_filter=0)
        self.sysctl(self.client, ipv4__ip_forward=1,
                    ipv6__conf__all__forwarding=1)
        # room for the alternative, as where controllers choose the MTU
        fabric.ip(self.member, 'link set eth0 mtu 1600')
        fabric.ip(
            self.other, 'link set lo up', 'link set eth0 up mtu 1600',
            *fabric.added('eth0', f'{OTHER}/24', f'{OTHER6}/64'),
            *(line for gateway in (OTHER_GATEWAY, OTHER_GATEWAY6)
              for line in (
                  f'route add default via {gateway}',
                  f'neigh replace {gateway} dev eth0 lladdr '
                  f'{OTHER_GATEWAY_MAC}')))
        fabric.ip(
            self.client, 'link set gw1 up mtu 1600', 'link set gw0 mtu 1600',
            *fabric.added('gw1', f'{OTHER_GATEWAY}/24',
                          f'{OTHER_GATEWAY6}/64'),
            *(f'route add {sid}/96 via {address} dev {interface}'
              for sid, address, interface in (
                  (hypervisor.SID, fabric.OWN6, 'gw0'),
                  (OTHER_SID, OTHER6, 'gw1'))),
            *(f'neigh replace {address} dev {interface} lladdr {mac}'
              for address, mac, interface in (
                  (OTHER, OTHER_MAC, 'gw1'), (OTHER6, OTHER_MAC, 'gw1'),
                  (fabric.OWN, fabric.MEMBER_MAC, 'gw0'),
                  (fabric.OWN6, fabric.MEMBER_MAC, 'gw0'))))

    def _start_other(self):
        folder = self.pin_folder()
        self.addCleanup(datapath.Datapath.remove, folder, str(LIBRARY))
        datapath.Datapath.create(folder, types.Sizes(
            64, 8, 4096, 4096), str(LIBRARY))
        other = datapath.Datapath(folder, str(LIBRARY))
        self.addCleanup(other.close)
        self.hosts = self.host, other
        with namespaces.entered(self.other):
            nic = socket.if_nametoindex('eth0')
            other.attach(types.Hook.NIC, nic)
        other.set_settings(types.Settings(nic, OTHER, OTHER6, OTHER_SID))
        other.set_networks(['10.0.0.0/24', '2001:db8::/48'])
        for host in self.hosts:
            host.set_peers(PEERS)
        self.other_vm = hypervisor.VirtualMachine(
            1, python_types.SimpleNamespace(
                member=self.other, sysctl=self.sysctl,
                addCleanup=self.addCleanup))
        self.other_keys = {}
        other.set_port(types.Port(self.other_vm.port, self.other_vm.ifindex),
                       hypervisor.ALL)
        for entry in self.other_vm.entries((fabric.VIP, fabric.VIP6)):
            other.set_entry(entry)
            self.other_keys[entry.vip, entry.protocol] = entry.key
        with namespaces.entered(self.other):
            other.attach(types.Hook.TAP_IN, self.other_vm.ifindex)
            other.attach(types.Hook.TAP_OUT, self.other_vm.ifindex)

    def through_node(self, frame):
        return self.encapsulated(frame[14:], self.order, fabric.NODE)

    def encapsulated(self, inner, order, source):
        """A client's packet to the first of ``order``, with the second as
        the alternative unless it is a SYN, as an LB node sends it."""
        packet = fabric.parsed(inner)
        keys = [(self.keys, self.other_keys)[number][packet.dst, 'tcp']
                for number in order]
        if packet.haslayer(inet.TCP) and packet[inet.TCP].flags.S:
            order = order[:1]
        ends = [ipaddress.ip_address(ENDS[self.kind][number])
                for number in order]
        v6 = packet.version == 6
        if self.kind == 'srv6':
            ends = [end + key for end, key in zip(ends, keys, strict=False)]
            shim = b''
            if len(ends) > 1:
                shim = bytes((41 if v6 else 4, 2, 4, 1, 0, 0, 0, 0)
                             ) + ends[1].packed
            return inet6.IPv6(
                src=fabric.NODE6 if source == fabric.NODE else source,
                dst=str(ends[0]), hlim=64,
                nh=43 if shim else 41 if v6 else 4) / scapy_packet.Raw(
                    shim + inner)
        option = b''
        if len(ends) > 1:
            words = len(ends[1].packed) // 4
            option = struct.pack('!HBBI', 0xff4f, 1, 1 + words,
                                 keys[1] << 8) + ends[1].packed
        shim = inet.UDP(sport=0xc001, dport=6081, chksum=0,
                        len=16 + len(option) + len(inner))
        payload = scapy_packet.Raw(bytes(shim) + struct.pack(
            '!BBHI', len(option) // 4, 0, 0x86dd if v6 else 0x0800,
            keys[0] << 8) + option + inner)
        if self.kind == 'geneve':
            return inet.IP(src=source, dst=str(ends[0]), proto=17) / payload
        return inet6.IPv6(
            src=fabric.NODE6 if source == fabric.NODE else source,
            dst=str(ends[0]), nh=17, hlim=64) / payload

    def send(self, packet):
        if not self.ready:
            return
        self.send_to(self.order[0], packet)

    def send_to(self, number, packet):
        mac, source, out = self.macs[number]
        kind = 0x0800 if isinstance(packet, inet.IP) else 0x86dd
        out.send(bytes(l2.Ether(src=source, dst=mac, type=kind) / packet))

    def counted(self, number, name):
        return {one.name: count for one, count in
                self.hosts[number].outcomes().items()}.get(name, 0)
