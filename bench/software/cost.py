# SPDX-License-Identifier: Apache-2.0
"""What load balancers cost: CPU time and memory, of processes and the kernel.

One method for proxies, whose work is done by processes, and for datapaths,
whose work is done by the kernel as packets arrive. The latter is charged to
nobody by default: the kernel does it in the context of whatever ran.

*Hosts that share a kernel* (network namespaces of one machine, or of one
guest): each queue of each device of the bed gets a kernel thread that receives
for it (threaded NAPI, Documentation/networking/napi.rst of Linux). What a
packet costs at a host, be it XDP, forwarding or TCP, is time of the host's own
threads then, and the host after it has threads as well, so that nothing of it
is charged to the one before. Threads and processes of a load balancer are in
one cgroup, whose cpu.stat has the time that the scheduler measured, in ns, of
those that have ended too. Other load does not change that time but by what it
takes from caches, and by interrupts that came meanwhile. Not in it: timers
(retransmissions, RCU), and interrupts of real devices, of which there are
none. What the bridge of a segment does for a packet is charged to who sent it:
give load balancers links of pairs. Receiving in threads costs every software
alike a switch of context for each batch of packets, which interrupts would
not.

*A load balancer with a kernel of its own*: all time in which a CPU of it was
not idle, from /proc/stat, without what a hypervisor took. Whatever else runs
there counts too: let nothing else run there.

Memory: proportional set size of the processes (shared pages divided by who
shares them), TCP sockets of the host's network namespace with their buffers
(ss), connections of IPVS; a software adds its BPF maps (maps_bytes()). Not in
it: code of the kernel, routes, what each packet takes for an instant.
"""

from collections.abc import Iterator
from collections.abc import Sequence
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
# Long enough to hand back what is in a group.
_END = 15


class Meter:
    """Costs of a bed's load balancers, from open() on.

    :ivar name: what the cgroups' names begin with, after cost_probe.PREFIX.
    """

    def __init__(self, name: str, bed: interface.Bed,
                 probes: dict[str, str]):
        self.name = name
        self._bed = bed
        self._probes = probes
        self._watches: dict[str, interface.Process] = {}

    def command(self, host: interface.Host, arguments: Sequence[str],
                ) -> list[str]:
        """The same command, counted: for start() or run() of the host."""
        return ['python3', self._probes[host.name], 'run', self._group(host),
                *map(str, arguments)]

    def adopt(self, host: interface.Host, process: int):
        """Count a process that runs, and all that descends from it."""
        self._ask(host, f'adopt {process}')

    def cpu_seconds(self) -> float:
        """Of all load balancers, since some instant in the past."""
        return sum(look['cpu_seconds'] for look in self._looks())

    def memory(self) -> dict[str, int]:
        """Bytes on all load balancers: processes, sockets, connections."""
        total: dict[str, int] = {}
        for look in self._looks():
            for name, value in look['memory'].items():
                total[name] = total.get(name, 0) + value
        return total

    def watch(self, host: interface.Host, kind: str) -> interface.Process:
        """Begin with a host; its process is to be stopped at the end."""
        log = f'cost-{self.name}.log'
        process = host.start(['python3', self._probes[host.name], 'watch',
                              self._group(host), kind, *_devices(host)],
                             log=log)
        self._watches[host.name] = process
        return process

    def ready(self, host: interface.Host):
        """:raises BenchError: its costs cannot be told."""
        self._answer(host)

    def _group(self, host):
        return f'{self.name}-{host.name}'

    def _looks(self):
        return [self._ask(self._bed.hosts[name], 'look')
                for name in self._watches]

    def _ask(self, host, line):
        # If it has ended, its log says why.
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
    """A Meter; the bed's devices receive in threads until the context ends.

    :raises BenchError: costs cannot be told here, and why.
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
    """What BPF maps pinned below a folder take, by the kernel's count."""
    shown = json.loads(host.run(
        ['bpftool', '--json', '--bpffs', 'map', 'show']).stdout)
    return sum(one['bytes_memlock'] for one in shown
               if any(pathlib.PurePosixPath(pin).is_relative_to(folder)
                      for pin in one.get('pinned', ())))


def _devices(host):
    """At links of the bed: machines have others, by which they are reached."""
    return [one.name for one in host.interfaces.values() if one.peers]


def _kind(host, kernels):
    sharing = [name for name, kernel in kernels.items()
               if kernel == kernels[host.name]]
    return cost_probe.SHARED if len(sharing) > 1 else cost_probe.OWN
