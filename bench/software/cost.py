# SPDX-License-Identifier: Apache-2.0
"""Costs of load balancers: CPU time and memory, of processes and the kernel.

The same method serves proxies, whose work is done by processes, and datapaths,
whose work is done by the kernel as packets arrive. By default, the latter is
not attributed: the kernel does it in the context of whatever was running.

*Hosts that share a kernel* (network namespaces of one machine, or of one
guest): each queue of each device of the bed gets a kernel thread that receives
for it (threaded NAPI, Documentation/networking/napi.rst of Linux). The cost of
a packet at a host, be it XDP, forwarding or TCP, is time of the host's own
threads then. The next host has its own too, so that its work is not charged to
the previous one. Threads and processes of a load balancer are in one cgroup;
its cpu.stat has the time measured by the scheduler, in ns, including ended
ones. Other load affects that time only through caches and interrupts. Not
included are timers (retransmissions, RCU) and interrupts of real devices, of
which there are none. The work of a segment's bridge is charged to the sender,
so give load balancers links of pairs. Receiving in threads costs each software
a context switch for each batch of packets, which interrupts would not.

*A load balancer with its own kernel*: all time in which one of its CPUs was
not idle, from /proc/stat, without stolen time. Everything that runs there
counts, so run nothing else.

Memory: proportional set size of processes (shared pages are divided by the
number of users), TCP sockets of the host's network namespace with their
buffers (ss), connections of IPVS; software adds its BPF maps (maps_bytes()).
Not included are code of the kernel, routes and memory of packets in flight.
"""

from collections.abc import Iterator
import contextlib
import json
import pathlib
import secrets
import subprocess

from bench import errors
from bench.beds import interface
from bench.software import cost_probe

PROBE = pathlib.Path(cost_probe.__file__)
_TIMEOUT = 60
# Seconds; long enough to empty a group.
_END = 15


class Meter:
    """Costs of a bed's load balancers, from open() on.

    :ivar name: prefix of the cgroups' names, after cost_probe.PREFIX.
    """

    def __init__(self, name: str, bed: interface.Bed,
                 probes: dict[str, str]):
        self.name = name
        self._bed = bed
        self._probes = probes
        self._watches: dict[str, interface.Process] = {}

    def adopt(self, host: interface.Host, process: int):
        """Count a running process and its descendants."""
        self._ask(host, f'adopt {process}')

    def cpu_seconds(self) -> float:
        """Return the sum of all load balancers since some past instant."""
        return sum(look['cpu_seconds'] for look in self._looks())

    def memory(self) -> dict[str, int]:
        """Return bytes on load balancers: processes, sockets, connections."""
        total: dict[str, int] = {}
        for look in self._looks():
            for name, value in look['memory'].items():
                total[name] = total.get(name, 0) + value
        return total

    def watch(self, host: interface.Host, kind: str) -> interface.Process:
        """Start to measure a host; stop the returned process at the end."""
        log = f'cost-{self.name}.log'
        process = host.start(['python3', self._probes[host.name], 'watch',
                              self._group(host), kind, *_devices(host)],
                             log=log)
        self._watches[host.name] = process
        return process

    def ready(self, host: interface.Host):
        """:raises BenchError: its costs cannot be measured."""
        self._answer(host)

    def _group(self, host):
        return f'{self.name}-{host.name}'

    def _looks(self):
        return [self._ask(self._bed.hosts[name], 'look')
                for name in self._watches]

    def _ask(self, host, line):
        # If the probe has ended, _answer() reports its log.
        with contextlib.suppress(OSError, errors.BenchError):
            self._watches[host.name].write(line + '\n')
        return self._answer(host)

    def _answer(self, host):
        try:
            answer = json.loads(self._watches[host.name].line(_TIMEOUT))
        except (EOFError, subprocess.TimeoutExpired) as error:
            log = host.read(host.folder / f'cost-{self.name}.log')
            raise errors.BenchError(
                f'what {host.name} costs cannot be told: '
                f'{log.decode(errors="replace").strip() or error!r}'
            ) from error
        if 'error' in answer:
            raise errors.BenchError(f'what {host.name} costs cannot be told: '
                                    f'{answer["error"]}')
        return answer


@contextlib.contextmanager
def open(bed: interface.Bed) -> Iterator[Meter]:
    """Yield a Meter; meanwhile the bed's devices receive in threads.

    :raises BenchError: why costs cannot be measured here.
    """
    nodes = bed.by_role(interface.LOAD_BALANCER)
    if not nodes:
        raise errors.BenchError(f'bed {bed.name} has no load balancer, whose '
                                'costs could be told')
    probes = {host.name: str(host.put(PROBE, PROBE.name))
              for host in bed.hosts.values()}
    kernels = {host.name: host.run(
        ['python3', probes[host.name], 'machine']).stdout
        for host in bed.hosts.values()}
    meter = Meter(secrets.token_hex(4), bed, probes)
    with contextlib.ExitStack() as stack:
        for host in bed.hosts.values():
            if host in nodes:
                stack.callback(
                    meter.watch(host, _kind(host, kernels)).stop, _END)
                meter.ready(host)
            elif kernels[host.name] in {kernels[node.name] for node in nodes}:
                words = ['python3', probes[host.name]]
                stack.callback(host.run, [*words, 'unpoll', *_devices(host)])
                host.run([*words, 'poll', *_devices(host)])
        yield meter


def maps_bytes(host: interface.Host, folder: str) -> int:
    """Return the memory of BPF maps pinned below a folder, by the kernel."""
    shown = json.loads(host.run(
        ['bpftool', '--json', '--bpffs', 'map', 'show']).stdout)
    return sum(bpf_map['bytes_memlock'] for bpf_map in shown
               if any(pathlib.PurePosixPath(pin).is_relative_to(folder)
                      for pin in bpf_map.get('pinned', ())))


def _devices(host):
    """Return devices at links of the bed, without those for management."""
    return [end.name for end in host.interfaces.values() if end.peers]


def _kind(host, kernels):
    sharing = [name for name, kernel in kernels.items()
               if kernel == kernels[host.name]]
    return cost_probe.SHARED if len(sharing) > 1 else cost_probe.OWN
