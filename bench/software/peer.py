# SPDX-License-Identifier: Apache-2.0
"""What all software has in common that this product is set beside."""

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
    """Serves from all load balancers of a bed, until the `with` block ends.

    Kinds say what a node does, by start(), apply() and stop().

    :param wanted: its configuration.
    :cvar local_vips: nodes have them as addresses of their own.
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

    # Of kinds.

    def prepare(self, host: beds.Host, stack: contextlib.ExitStack) -> None:
        """Set up what is there while the node is down, too."""

    def start(self, host: beds.Host) -> None:
        """Serve, when it returns; VIPs lead nowhere so far."""
        raise NotImplementedError

    def apply(self, host: beds.Host, old: interface.Service) -> None:
        """Take over the members of a service, which had others."""
        raise NotImplementedError

    def stop(self, host: beds.Host) -> None:
        """Leave nothing of start() and apply(), at once. VIPs lead nowhere by
        then: no client hears of it."""
        raise NotImplementedError

    def processes(self, host: beds.Host) -> list[int]:
        """Those whose descendants and themselves are its costs."""
        return []

    def tables_bytes(self) -> int:
        """Of the kernel, beside what cost.py knows."""
        return 0

    # Of software.interface.

    def cpu_seconds(self) -> float:
        """The first look begins to count, see cost.py: until then the bed
        receives as it always does."""
        return self._costs().cpu_seconds()

    def memory_bytes(self) -> int:
        return sum(self.memory().values())

    def memory(self) -> dict[str, int]:
        """The same, by what it is for."""
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
        """:raises BenchError: this kind cannot serve them."""

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
            # Of the local table and this one, it was the second.
            run_batch(host, (f'route delete blackhole {network(vip)}'
                             for vip in self._vips()))

    def _stop(self, host):
        if host.name in self._alive:
            self._hide_vips(host)
            self.stop(host)

    def _hide_vips(self, host):
        """Answer nothing that is sent to them, nor send it on."""
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
    """Why load balancers cannot run programs: name → Debian package."""
    for host in bed.by_role(beds.LOAD_BALANCER):
        for program, package in programs.items():
            found = host.run(['sh', '-c', 'command -v "$1"', 'sh', program],
                             check=False)
            if found.returncode:
                return (f'{host.name} has no {program}: install the Debian '
                        f'package {package}')
    return None


@contextlib.contextmanager
def kernel_settings(host: beds.Host, wanted: Mapping[str, int | str],
                    ) -> Iterator[None]:
    """Sysctls of the host; as they were when the context ends."""
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
    """Configuration that all of them have; see Deployment."""

    detection_s: float = 0.3


class Software:
    """A kind of them, by the types of its configuration and deployments."""

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
    """With its prefix length, as routes have it."""
    return str(ipaddress.ip_network(vip))


def run_batch(host: beds.Host, lines: Iterable[str], force: bool = False,
              version: int | None = None) -> None:
    """Commands of ip.

    :param force: what is not there to be removed is no error.
    :param version: of those that no address says it of.
    """
    host.run(['ip', *([f'-{version}'] if version else []),
              *(['-force'] if force else []), '-batch', '-'],
             stdin=''.join(f'{line}\n' for line in lines), check=not force)
