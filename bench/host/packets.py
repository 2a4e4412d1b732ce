# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per packet of a hypervisor's programs, by case.

Each packet is a BPF_PROG_TEST_RUN. Results are medians, net of a program that
returns at once (the tap's egress, with the mark), which runs in turn. "line"
is a program that only reads one line of a table as large as that of flows;
growth beyond it is due to the programs. Cases "in a loop" run packets as a
NIC's driver does, not in a call each (loop.py).
"""

import functools
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from bench.host import floor
from bench.host import loop
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types

ROOT = pathlib.Path(__file__).parents[2]
LIBRARY = ROOT / 'datapath/build/liboctavia_xdp_host.so'
PORT, OTHER = (f'{number}' * 8 + '-1111-1111-1111-111111111111'
               for number in (1, 2))
NODE, LOCAL, VIP, FIXED = '10.0.0.17', '10.1.0.1', '192.0.2.1', '10.7.0.5'
VIP6, FIXED6 = '2001:db8:f::1', 'fd00:7::5'
MARK = 0x6f78686f
LO = 1
KEY, OTHER_KEY, KEY6 = 5, 6, 7
FLAT = 1.5  # aim of flatness()
LIMITS = {'other_nic': 30, 'other_tap': 60, 'known_in': 300, 'reply': 250,
          'new_16_rules': 600}


def encapsulated(key: int, client: str, sport: int, flags: str,
                 payload: bytes = b'x', dport: int = 80) -> bytes:
    inner = bytes(inet.IP(src=client, dst=VIP) /
                  inet.TCP(sport=sport, dport=dport, flags=flags) / payload)
    return in_tunnel(key, 0x0800, inner)


def answer(payload: bytes = b'x') -> bytes:
    return bytes(l2.Ether(src='02:00:00:00:00:05', dst='02:00:00:00:00:06') /
                 inet.IP(src=FIXED, dst='20.0.0.0') /
                 inet.TCP(sport=8080, dport=1, flags='A') / payload)


def of_another(payload: bytes = b'x') -> bytes:
    return bytes(l2.Ether(dst='02:00:00:00:00:02') /
                 inet.IP(src='10.9.0.1', dst='10.9.0.2') /
                 inet.TCP(sport=22, dport=4000, flags='A') / payload)


def in_tunnel(key: int, kind: int, inner: bytes) -> bytes:
    raw = struct.pack('!HHI', 0, kind, key << 8) + inner
    return bytes(l2.Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02') /
                 inet.IP(src=NODE, dst=LOCAL) /
                 inet.UDP(sport=0xc001, dport=6081, chksum=0) / raw)


class Varied:
    """A frame with varying client address and port. Inner checksums are left
    alone, since only that of the outer header is verified."""

    def __init__(self, data: bytes, address: int, port: int):
        self.data, self.address, self.port = bytearray(data), address, port

    def of(self, flow: int) -> bytes:
        struct.pack_into('!I', self.data, self.address,
                         0x14000000 + (flow >> 4))
        struct.pack_into('!H', self.data, self.port, 40000 + (flow & 15))
        return bytes(self.data)


class Hypervisor:

    def __init__(self, folder: str, flows: int):
        self.folder = folder
        datapath.Datapath.create(folder, types.Sizes(
            64, 8, max(flows, 1024), 1 << 17), str(LIBRARY))
        self.host = datapath.Datapath(folder, str(LIBRARY))
        self.host.set_settings(types.Settings(LO, LOCAL))
        self.host.set_networks(['10.0.0.0/24'])
        rules = [types.Rule(4, 'tcp', (port, port))
                 for port in range(1, 16)] + [types.Rule(4, 'tcp'),
                                              types.Rule(6, 'tcp')]
        for port, key, fixed in ((PORT, KEY, FIXED),
                                 (OTHER, OTHER_KEY, '10.7.0.6')):
            self.host.set_port(types.Port(port, LO, flows_max=1 << 30), rules)
            self.host.set_entry(types.Entry(
                key, port, VIP, 80 if key == KEY else 81, fixed, 8080, 'tcp',
                '02:00:00:00:00:05', '02:00:00:00:00:06', 1400))
        self.syn = Varied(encapsulated(KEY, '20.0.0.0', 1, 'S'), 62, 70)
        self.ack = Varied(encapsulated(KEY, '20.0.0.0', 1, 'A'), 62, 70)
        self.flood = Varied(encapsulated(OTHER_KEY, '20.0.0.0', 1, 'S',
                                         dport=81), 62, 70)
        self.reply = Varied(answer(), 30, 36)
        self._add_ipv6()
        self.empty = bytes(l2.Ether() / inet.IP() / inet.TCP())

    def _add_ipv6(self) -> None:
        self.host.set_entry(types.Entry(
            KEY6, PORT, VIP6, 80, FIXED6, 8080, 'tcp', '02:00:00:00:00:05',
            '02:00:00:00:00:06', 1380))
        self.syn6, self.ack6 = (Varied(in_tunnel(KEY6, 0x86dd, bytes(
            inet6.IPv6(src='2001:db8:c::', dst=VIP6) /
            inet.TCP(sport=1, dport=80, flags=flags) / b'x')), 70, 90)
            for flags in 'SA')
        self.reply6 = Varied(bytes(
            l2.Ether(src='02:00:00:00:00:05', dst='02:00:00:00:00:06') /
            inet6.IPv6(src=FIXED6, dst='2001:db8:c::') /
            inet.TCP(sport=8080, dport=1, flags='A') / b'x'), 50, 56)

    def run(self, hook: types.Hook, data: bytes) -> int:
        return self.host.run(hook, data, LO).duration

    def floor(self) -> int:
        return self.host.run(types.Hook.TAP_OUT, self.empty, LO,
                             MARK).duration

    def establish(self, flow: int) -> None:
        self.run(types.Hook.NIC, self.syn.of(flow))
        self.run(types.Hook.TAP_IN, self.reply.of(flow))
        self.run(types.Hook.NIC, self.ack.of(flow))

    def establish_ipv6(self, flow: int) -> None:
        self.run(types.Hook.NIC, self.syn6.of(flow))
        self.run(types.Hook.TAP_IN, self.reply6.of(flow))
        self.run(types.Hook.NIC, self.ack6.of(flow))


def measured(hypervisor: Hypervisor, packets: int, run, alone=None
             ) -> dict[str, float]:
    """Return costs of packets. `run` runs a packet and returns its duration;
    `alone` does so for a single flow."""
    floors, costs, alone_costs = [], [], []
    for _ in range(packets):
        floors.append(hypervisor.floor())
        costs.append(run())
        if alone:
            alone_costs.append(alone())
    floor, cost = statistics.median(floors), statistics.median(costs)
    result = {'floor_ns': floor, 'net_ns': cost - floor,
              'ratio': round(cost / floor, 2), 'packets': packets}
    if alone:
        result['alone_ns'] = statistics.median(alone_costs) - floor
    return result


def cases(hypervisor: Hypervisor, flows: int, packets: int):
    nic, tap = types.Hook.NIC, types.Hook.TAP_IN
    for flow in range(flows):
        hypervisor.establish(flow)
    chosen = random.Random(1)
    other = of_another()

    def any_flow(varied):
        return varied.of(chosen.randrange(flows))
    yield 'known_in', measured(
        hypervisor, packets,
        lambda: hypervisor.run(nic, any_flow(hypervisor.ack)),
        lambda: hypervisor.run(nic, hypervisor.ack.of(0)))
    yield 'reply', measured(
        hypervisor, packets,
        lambda: hypervisor.run(tap, any_flow(hypervisor.reply)),
        lambda: hypervisor.run(tap, hypervisor.reply.of(0)))
    line = floor.Floor(flows)
    yield 'line', measured(
        hypervisor, packets, lambda: line.run(any_flow(hypervisor.ack)),
        lambda: line.run(hypervisor.ack.of(0)))
    for name, result in in_a_loop(hypervisor, flows, line).items():
        yield name + '_in_a_loop', result
    line.close()
    if flows == 1:
        hypervisor.establish_ipv6(0)
        yield 'known_in_ipv6', measured(
            hypervisor, packets, lambda: hypervisor.run(
                nic, hypervisor.ack6.of(0)))
        yield 'reply_ipv6', measured(hypervisor, packets, lambda:
                                     hypervisor.run(
                                         tap, hypervisor.reply6.of(0)))
    yield 'other_nic', measured(hypervisor, packets, lambda: hypervisor.run(
        nic, other))
    yield 'other_tap', measured(hypervisor, packets, lambda: hypervisor.run(
        tap, other))
    fresh = iter(range(1 << 26, 1 << 27))
    yield 'new_16_rules', measured(
        hypervisor, packets, lambda: hypervisor.run(
            nic, hypervisor.syn.of(next(fresh))))

    def amid_flood():
        for _ in range(4):
            hypervisor.run(nic, hypervisor.flood.of(next(fresh)))
        return hypervisor.run(nic, any_flow(hypervisor.ack))
    yield 'known_in_amid_flood', measured(hypervisor, packets // 4,
                                          amid_flood)


def in_a_loop(hypervisor: Hypervisor, flows: int, line: floor.Floor
              ) -> dict[str, dict]:
    def filled(make):
        return make(b'x' * (loop.LENGTH - len(make(b''))))

    # New flows use the other port: known flows without a place are half-open,
    # and each port has its own share of those.
    syn, ack = (filled(functools.partial(
        encapsulated, key, '20.0.0.0', 1, flags, dport=dport))
        for key, flags, dport in ((OTHER_KEY, 'S', 81), (KEY, 'A', 80)))
    reply, other = filled(answer), filled(of_another)
    programs = loop.Programs(hypervisor.folder)
    try:
        return loop.measured({
            'known_in': (ack, (62, 70), programs.nic, loop.REDIRECTED),
            'reply': (reply, (30, 36), programs.tap_in, loop.REDIRECTED),
            'line': (ack, (62, 70), line.program, loop.LEFT_ALONE)},
            {'new_16_rules': (syn, (62, 70), programs.nic, loop.REDIRECTED),
             'other_nic': (other, (30, 36), programs.nic, loop.LEFT_ALONE),
             'other_tap': (other, (30, 36), programs.tap_in,
                           loop.LEFT_ALONE)},
            flows, LO)
    finally:
        programs.close()


def flatness(results: dict[str, dict]) -> dict[str, dict]:
    """Return how much more a known flow costs among many than alone in the
    same run: as measured, without the cost of the one line of memory, in a
    loop, and by the minimum of the loops."""
    line = results['line']['net_ns'] - results['line']['alone_ns']
    out = {}
    for name in ('known_in', 'reply'):
        single, looped = results[name], results[name + '_in_a_loop']
        out[name] = {
            'ratio': round(single['net_ns'] / single['alone_ns'], 2),
            'without_line': round(
                (single['net_ns'] - line) / single['alone_ns'], 2),
            'in_a_loop': round(looped['net_ns'] / looped['alone_ns'], 2),
            'least_in_a_loop': round(
                looped['least_ns'] / looped['least_alone_ns'], 2)}
    print(f'{out}, aim {FLAT}')
    return out


def run(asked):
    """Run all cases with the given number of flows."""
    flows = asked.settings['flows']
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    results: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(('mount', '-t', 'bpf', 'bpf', directory), check=True)
        hypervisor = Hypervisor(directory + '/host', flows)
        for name, result in cases(hypervisor, flows,
                                  asked.settings['packets']):
            results[name] = result
            limit = LIMITS.get(name.removesuffix('_in_a_loop'))
            print(f'{name:<20} {result["net_ns"]:>6.0f} ns net'
                  f'{f", limit {limit}" if limit else ""}', flush=True)
        confirmed = sum(port.flows for port in hypervisor.host.ports())
        hypervisor.host.close()
        subprocess.run(('umount', '-l', directory), check=True)
    return results, {**results, 'confirmed_flows': confirmed,
                     'flatness': flatness(results)}
