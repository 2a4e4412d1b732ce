# SPDX-License-Identifier: Apache-2.0
"""A hypervisor's programs beside their model, and frames for both."""

import collections
import ipaddress
import os
import pathlib
import unittest

from scapy import packet as scapy_packet
from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import library
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.models.host_model import model
from octavia_xdp_provider.tests.packets.support import environment

LIBRARY = pathlib.Path(__file__).parents[4] / (
    'datapath/build/liboctavia_xdp_host.so')
PORT = '11111111-1111-1111-1111-111111111111'
OTHER_PORT = '22222222-2222-2222-2222-222222222222'
ABSENT_PORT = '33333333-3333-3333-3333-333333333333'
NODE, NODE6 = '10.0.0.17', '2001:db8:0:17::1'
NODES = ('10.0.0.0/24', '2001:db8::/48')
FOREIGN, FOREIGN6 = '10.0.1.17', '2001:db8:1::1'
LOCAL, LOCAL6 = '10.1.0.1', '2001:db8:1::11'
SID = '2001:db8:5:1:2:3::'
PEERS = ('10.2.0.0/16', '2001:db8:2::/48')
PEER, PEER6, PEER_SID = '10.2.0.1', '2001:db8:2::11', '2001:db8:2:1:2:3::'
CLIENT, CLIENT6 = '198.51.100.7', '2001:db8:c::7'
DENIED, DENIED6 = '203.0.113.7', '2001:db8:d::7'
VIP, VIP6 = '192.0.2.1', '2001:db8:f::1'
OTHER_VIP, OTHER_VIP6 = '192.0.2.2', '2001:db8:f::2'
FIXED, FIXED6 = '192.168.7.5', 'fd00:7::5'
VM, GATEWAY, OTHER_VM = ('fa:16:3e:00:00:05', 'fa:16:3e:00:00:01',
                         'fa:16:3e:00:00:06')
LISTENER, LOCAL_PORT = 80, 8080
# MTU of answers: that of a loopback device unless a test sets another.
REPLY_MTU = 65536
# Idle seconds of all flows: the model does not know how long a test takes.
IDLE = 7440
PROTOCOLS = {'tcp': inet.TCP, 'udp': inet.UDP}
RULES = (types.Rule(4, 'tcp', (8000, 9100), '198.51.100.0/24'),
         types.Rule(4, 'udp', (0, 65535), '198.51.0.0/16'),
         types.Rule(6, None, (0, 65535), '2001:db8:c::/48'))


def key(number: int, protocol: str, v6: bool) -> int:
    return number + {'tcp': 0, 'udp': 16}[protocol] + 32 * v6


def entry(number: int, protocol: str, v6: bool, port_id: str = PORT,
          vips: tuple[str, str] = (VIP, VIP6), port: int = LOCAL_PORT,
          mss: int = 0) -> types.Entry:
    return types.Entry(
        key(number, protocol, v6), port_id, vips[v6], LISTENER,
        (FIXED, FIXED6)[v6], port, protocol,
        OTHER_VM if port_id == OTHER_PORT else VM, GATEWAY, mss)


# 1: the listener; 2: the same fixed IP elsewhere; 3 and 4: two listeners at
# one port of the member; 5: of a port whose tap is not here
ENTRIES = [case for protocol in PROTOCOLS for v6 in (False, True) for case in (
    entry(1, protocol, v6, mss=1300), entry(2, protocol, v6, OTHER_PORT),
    entry(3, protocol, v6, port=9090),
    entry(4, protocol, v6, vips=(OTHER_VIP, OTHER_VIP6), port=9090),
    entry(5, protocol, v6, ABSENT_PORT))]


def model_entry(wanted: types.Entry) -> model.Entry:
    return model.Entry(
        wanted.key, wanted.port_id, wanted.vip, wanted.vip_port,
        wanted.fixed, wanted.port,
        types.PROTOCOLS[wanted.protocol],
        library.mac(wanted.mac) + library.mac(wanted.gateway_mac), wanted.mss)


def model_rule(rule: types.Rule, sets: dict[int, tuple[str, ...]]
               ) -> model.Rule:
    everything = '0.0.0.0/0' if rule.family == 4 else '::/0'
    return model.Rule(
        rule.family, types.PROTOCOLS[rule.protocol] if rule.protocol else None,
        rule.ports, sets.get(rule.address_set, ()) if rule.address_set
        else (rule.remote or everything,))


def encapsulated(inner: scapy_packet.Packet | bytes, key: int, *,
                 inner_v6: bool, source: str = NODE, v6: bool = False,
                 geneve: bool = True, tos: int = 0,
                 alternative: tuple[str, int] | None = None,
                 **header) -> bytes:
    """A frame as an LB node sends it. `alternative`: address, of SRv6 the
    first SID, and key."""
    inner = bytes(inner)
    kind = 0x86dd if inner_v6 else 0x0800
    other = b'' if alternative is None else ipaddress.ip_address(
        alternative[0]).packed
    if geneve:
        option, words = b'', 0
        if alternative is not None:
            words = 2 + len(other) // 4
            option = (b'\xff\x4f\x01' + bytes((words - 1,)) +
                      alternative[1].to_bytes(3, 'big') + b'\0' + other)
        shim = inet.UDP(sport=0xc123, dport=6081, chksum=0) / (
            bytes((words, 0)) + kind.to_bytes(2, 'big') +
            key.to_bytes(3, 'big') + b'\0' + option + inner)
    elif alternative is not None:
        header.setdefault('nh', 43)
        shim = scapy_packet.Raw(
            bytes((41 if inner_v6 else 4, 2, 4, 1, 0, 0, 0, 0)) + other[:12] +
            alternative[1].to_bytes(4, 'big') + inner)
    else:
        shim = scapy_packet.Raw(inner)
    link = l2.Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02')
    if not v6:
        return bytes(link / inet.IP(src=source, dst=LOCAL, tos=tos, ttl=64,
                                    **header) / shim)
    destination = LOCAL6 if geneve else str(
        ipaddress.IPv6Address(SID) + key)
    if not geneve:
        header.setdefault('nh', 41 if inner_v6 else 4)
    return bytes(link / inet6.IPv6(
        src=NODE6 if source == NODE else source, dst=destination, tc=tos,
        hlim=64, **header) / shim)


def ip(v6: bool, source: str, destination: str, **header):
    if v6:
        return inet6.IPv6(src=source, dst=destination, **header)
    return inet.IP(src=source, dst=destination, **header)


def echo(v6: bool, source: str, destination: str, reply: bool = False,
         identifier: int = 7, sequence: int = 1, payload: bytes = b'ping',
         **header):
    numbers = {'id': identifier, 'seq': sequence}
    layer = ((inet6.ICMPv6EchoReply if reply else inet6.ICMPv6EchoRequest)(
        **numbers) if v6 else inet.ICMP(type=0 if reply else 8, **numbers))
    return ip(v6, source, destination, **header) / layer / payload


def from_vm(inner: scapy_packet.Packet, vm: str = VM) -> bytes:
    return bytes(l2.Ether(src=vm, dst=GATEWAY) / inner)


class Difference(AssertionError):
    """The program did not do what the model says."""


class Hypervisor:
    """Both, with the same state."""

    def __init__(self, sizes: types.Sizes | None = None):
        devices = environment.enter()
        if not LIBRARY.exists():
            raise unittest.SkipTest('the host library is not built')
        if tuple(map(int, os.uname().release.split('.')[:2])) < (6, 6):
            raise unittest.SkipTest('tcx is not in this kernel')
        self.taps = {PORT: devices['uplink1'], OTHER_PORT: devices['uplink2'],
                     ABSENT_PORT: 0}
        self._directory, _ = environment.bpf_filesystem()
        self.folder = str(self._directory)
        datapath.Datapath.create(self.folder, sizes or types.Sizes(
            64, 8, 4096, 4096), str(LIBRARY))
        self.datapath = self.open()
        self.sets: dict[int, tuple[str, ...]] = {}
        self.rules: dict[str, tuple[types.Rule, ...]] = {}
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.model = model.Model(NODES, PEERS, LOCAL, LOCAL6, SID)
        self.set_settings()
        self.datapath.set_networks(NODES)
        self.datapath.set_peers(PEERS)
        for port in self.taps:
            self.set_rules(port, RULES)
        for wanted in ENTRIES:
            self.datapath.set_entry(wanted)
            self.model.entries[wanted.key] = model_entry(wanted)

    def open(self) -> datapath.Datapath:
        return datapath.Datapath(self.folder, str(LIBRARY))

    def close(self) -> None:
        self.datapath.close()
        datapath.Datapath.remove(self.folder, str(LIBRARY))
        environment.drop_filesystem(self._directory)

    def set_settings(self, reply_ifindex: int = environment.LOOPBACK) -> None:
        self.model.reply_ifindex = reply_ifindex
        self.datapath.set_settings(types.Settings(
            reply_ifindex, LOCAL, LOCAL6, SID, *[IDLE] * 4))

    def set_reply_mtu(self, mtu: int = REPLY_MTU) -> None:
        """Set the MTU of the interface by which answers leave."""
        environment.set_mtu('lo', mtu)
        self.model.reply_mtu = mtu
        self.set_settings()

    def set_rules(self, port: str, rules: tuple[types.Rule, ...],
                  is_open: bool = False, flows_max: int = 0) -> None:
        self.datapath.set_port(types.Port(port, self.taps[port], is_open,
                                          flows_max), rules)
        self.rules[port] = rules
        known = self.model.ports.setdefault(port, model.Port(self.taps[port]))
        known.open = is_open
        known.rules = tuple(model_rule(rule, self.sets) for rule in rules)
        known.flows_max = flows_max or 500000
        known.generation += 1

    def bring_tap(self, port: str) -> None:
        """The VM of the port comes from another hypervisor."""
        for ifindex in (0, self.taps[port]):
            self.datapath.set_port(types.Port(
                port, ifindex, self.model.ports[port].open,
                self.model.ports[port].flows_max), self.rules[port])
        self.model.ports[port].arriving = True

    def go_on_arriving(self) -> None:
        """Remove times, which the model does not have, from both states."""
        for port, known in self.model.ports.items():
            if known.arriving:
                self.bring_tap(port)

    def _compare(self, kind: str, frame: bytes,
                 wanted: tuple[int | None, bytes, str],
                 result: types.Frame) -> tuple[int | None, bytes, str]:
        action, data, outcome = wanted
        self.outcomes[outcome] += outcome.startswith('DROP')
        for remark in self.model.remarks:
            self.outcomes[remark] += 1
        self.model.remarks.clear()
        if result.action != action or (action != model.SHOT and
                                       result.data != data):
            raise Difference(
                f'{kind} {frame.hex()}\n  wanted {outcome} {action} '
                f'{data.hex()}\n  found {result.action} {result.data.hex()}')
        return wanted

    def nic(self, frame: bytes) -> tuple[int | None, bytes, str]:
        wanted = self.model.nic(frame)
        return self._compare('nic', frame, wanted, self.datapath.run(
            types.Hook.NIC, frame, environment.LOOPBACK))

    def tap_in(self, frame: bytes, port: str = PORT
               ) -> tuple[int | None, bytes, str]:
        wanted = self.model.tap_in(frame, port)
        return self._compare('tap', frame, wanted, self.datapath.run(
            types.Hook.TAP_IN, frame, self.taps[port]))

    def tap_out(self, frame: bytes, port: str = PORT, mark: int = 0) -> None:
        self.model.tap_out(frame, port, mark)
        result = self.datapath.run(types.Hook.TAP_OUT, frame, self.taps[port],
                                   mark)
        self._compare('to tap', frame, (None, frame, 'PASS'), result)

    def check_outcomes(self) -> None:
        counted = {outcome.name: packets for outcome, packets
                   in self.datapath.outcomes().items() if packets}
        wanted = {name: count for name, count in self.outcomes.items()
                  if count}
        if counted != wanted:
            raise Difference(f'outcomes {counted}, not {wanted}')

    def check_flows(self) -> None:
        """Return each flow's client, listener and state. A direct flow has
        the member's port and no listener."""
        wanted = collections.Counter()
        for (_, client, port), flow in self.model.flows.items():
            wanted[client, port, None if flow.direct else flow.key,
                   flow.direct, flow.closing, flow.confirmed] += 1
        for (_, _, client, number, _), key in self.model.echoes.items():
            wanted[client, number, key, False, False, False] += 1
        listed = collections.Counter()
        for table in (types.Table.CONFIRMED, types.Table.HALF_OPEN):
            for flow in self.datapath.flows(table):
                packed = ipaddress.ip_address(flow.client).packed
                listed[packed, flow.client_port,
                       None if flow.direct else flow.key, flow.direct,
                       flow.closing, table == types.Table.CONFIRMED] += 1
        if listed != wanted:
            raise Difference(f'flows: too many {listed - wanted}, '
                             f'missing {wanted - listed}')

