# SPDX-License-Identifier: Apache-2.0
"""The common part of software that the product is compared with."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import ipaddress
import time
from typing import Any

from bench import errors
from bench.beds import interface as beds
from bench.software import cost
from bench.software import interface
from bench.software import options
from bench.software import topology

Key = tuple[str, int, str]


class Deployment:
    """A context manager that serves from all load balancers of a bed.

    Subclasses define what a node does in start(), apply() and stop().

    :param wanted: configuration of the software.
    :cvar local_vips: whether nodes have VIPs as their own addresses.
    """

    local_vips = True

    def __init__(self, bed: beds.Bed, services: Sequence[interface.Service],
                 wanted: 'Common'):
        self._bed = bed
        self._services = {key(service): service for service in services}
        self._wanted = wanted
        self._nodes = {host.name: host
                       for host in bed.by_role(beds.LOAD_BALANCER)}
        self._alive = list(self._nodes)
        self._stack = contextlib.ExitStack()
        self._meter: cost.Meter | None = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for host in self._nodes.values():
                self.prepare(host, stack)
                stack.callback(self._forget_vips, host)
                self._hide_vips(host)
                stack.callback(self._stop, host)
                self._start(host)
            stack.callback(topology.route_vips, self._bed, self._vips(), [])
            self._route()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exception):
        self._stack.close()

    # For subclasses.

    def prepare(self, host: beds.Host, stack: contextlib.ExitStack) -> None:
        """Set up what exists even while the node is down."""

    def start(self, host: beds.Host) -> None:
        """Start to serve before it returns; VIPs are blackholed until then."""
        raise NotImplementedError

    def apply(self, host: beds.Host, old: interface.Service) -> None:
        """Apply the changed members of a service."""
        raise NotImplementedError

    def stop(self, host: beds.Host) -> None:
        """Undo start() and apply() at once. VIPs are blackholed by then, so
        that no client gets an answer."""
        raise NotImplementedError

    def processes(self, host: beds.Host) -> list[int]:
        """Return the processes that count as costs with their descendants."""
        return []

    def tables_bytes(self) -> int:
        """Return kernel memory that cost.py does not count."""
        return 0

    # See software.interface.

    def cpu_seconds(self) -> float:
        """Return CPU seconds. The first call starts counting, which changes
        how the bed receives (cost.py)."""
        return self._costs().cpu_seconds()

    def memory_bytes(self) -> int:
        return sum(self.memory().values())

    def memory(self) -> dict[str, int]:
        """Return memory by purpose."""
        return self._costs().memory() | {'tables': self.tables_bytes()}

    def set_members(self, service: interface.Service) -> None:
        old = self._services.get(key(service))
        if old is None:
            raise errors.BenchError(
                f'no service {service.vip} {service.protocol} port '
                f'{service.port} was deployed')
        self.check([service])
        self._services[key(service)] = service
        for name in self._alive:
            self.apply(self._nodes[name], old)

    def stop_node(self, host: str) -> None:
        if host not in self._alive:
            raise errors.BenchError(f'{host} does not serve')
        self._alive.remove(host)
        self._hide_vips(self._nodes[host])
        self.stop(self._nodes[host])
        time.sleep(self._wanted.detection_s)
        self._route()

    def start_node(self, host: str) -> None:
        if host in self._alive or host not in self._nodes:
            raise errors.BenchError(f'{host} is no load balancer that stands '
                                    'still')
        self._start(self._nodes[host])
        self._alive.append(host)
        if self._meter is not None:
            self._adopt(self._meter, self._nodes[host])
        self._route()

    def check(self, services: Sequence[interface.Service]) -> None:
        """:raises BenchError: the software cannot serve them."""

    def _costs(self):
        if self._meter is None:
            self._meter = self._stack.enter_context(cost.open(self._bed))
            for name in self._alive:
                self._adopt(self._meter, self._nodes[name])
        return self._meter

    def _adopt(self, meter, host):
        for process in self.processes(host):
            meter.adopt(host, process)

    def _start(self, host):
        if self.local_vips:
            run_batch(host, (f'address replace {network(vip)} dev lo'
                             for vip in self._vips()))
        self.start(host)
        if self.local_vips:
            # It had no effect, as the local table takes precedence.
            run_batch(host, (f'route delete blackhole {network(vip)}'
                             for vip in self._vips()))

    def _stop(self, host):
        if host.name in self._alive:
            self._hide_vips(host)
            self.stop(host)

    def _hide_vips(self, host):
        """Neither answer nor forward packets to VIPs."""
        run_batch(host, (f'route replace blackhole {network(vip)}'
                         for vip in self._vips()))
        if self.local_vips:
            run_batch(host, (f'address delete {network(vip)} dev lo'
                             for vip in self._vips()), force=True)

    def _forget_vips(self, host):
        run_batch(host, (f'route delete {network(vip)}'
                         for vip in self._vips()), force=True)

    def _route(self):
        topology.route_vips(self._bed, self._vips(),
                            [self._nodes[name] for name in self._nodes
                             if name in self._alive])

    def _vips(self):
        return sorted({service.vip for service in self._services.values()})


def key(service: interface.Service) -> Key:
    return service.vip, service.port, service.protocol


def refuse_protocols(software: str, services: Iterable[interface.Service],
                     known: Sequence[str], why: str = '') -> None:
    for service in services:
        if service.protocol not in known:
            raise errors.BenchError(
                f'software {software}: {service.vip} port {service.port} is '
                f'of {service.protocol}, it serves {" and ".join(known)}'
                + (f': {why}' if why else ''))


def missing_programs(bed: beds.Bed, programs: Mapping[str, str],
                     ) -> str | None:
    """Return why programs (with their Debian packages) cannot run, or None."""
    for host in bed.by_role(beds.LOAD_BALANCER):
        for program, package in programs.items():
            lookup = host.run(['sh', '-c', 'command -v "$1"', 'sh', program],
                              check=False)
            if lookup.returncode:
                return (f'{host.name} has no {program}: install the Debian '
                        f'package {package}')
    return None


@contextlib.contextmanager
def kernel_settings(host: beds.Host, wanted: Mapping[str, int | str],
                    ) -> Iterator[None]:
    """Set sysctls of the host, and restore them when the context ends."""
    names = list(wanted)
    before = host.run(['sysctl', '-n', *names]).stdout.splitlines()
    host.run(['sysctl', '-qw',
              *(f'{name}={value}' for name, value in wanted.items())])
    try:
        yield
    finally:
        host.run(['sysctl', '-qw', *(f'{name}={value}' for name, value in
                                     zip(names, before, strict=True))])


@dataclasses.dataclass(frozen=True)
class Common:
    """Configuration of all peers.

    :param detection_s: time until routes exclude a stopped node.
    """

    detection_s: float = 0.3


class Software:
    """A peer, defined by the types of its configuration and deployments."""

    name = ''
    configuration: type[Common] = Common
    deployment: type[Deployment] = Deployment

    def missing(self, bed: beds.Bed) -> str | None:
        """See software.interface."""
        raise NotImplementedError

    def check(self, configuration: Mapping[str, Any]) -> None:
        """See software.interface."""
        options.read(self.name, self.configuration, configuration)

    @contextlib.contextmanager
    def deploy(self, bed: beds.Bed, services: Sequence[interface.Service],
               configuration: Mapping[str, Any]) -> Iterator[Deployment]:
        wanted = options.read(self.name, self.configuration, configuration)
        lacking = self.missing(bed)
        if lacking:
            raise errors.BenchError(lacking)
        made = self.deployment(bed, services, wanted)
        made.check(services)
        with made:
            yield made


def network(vip: str) -> str:
    """Return a VIP with its prefix length, as in routes."""
    return str(ipaddress.ip_network(vip))


def run_batch(host: beds.Host, lines: Iterable[str], force: bool = False,
              version: int | None = None) -> None:
    """Run commands of ip.

    :param force: ignore errors, such as for missing objects.
    :param version: IP version of commands without an address.
    """
    host.run(['ip', *([f'-{version}'] if version else []),
              *(['-force'] if force else []), '-batch', '-'],
             stdin=''.join(f'{line}\n' for line in lines), check=not force)
