# SPDX-License-Identifier: Apache-2.0
"""This product under test: its library, and its program in the driver.

On each load balancer, xdp_node.py creates the state, attaches the program and
sets services through the product's own binding. The processes that make the
same calls on an operator's node (agent, result handler, checker) do not run;
they are measured by the suites "control" and "hc".
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import json
import pathlib
import sys
import threading
import time
from typing import Any

from bench import errors
from bench.beds import interface as beds
from bench.software import bgp
from bench.software import cost
from bench.software import interface
from bench.software import options
from bench.software import topology
from octavia_xdp_provider.contracts import enumerations

CHECKOUT = pathlib.Path(__file__).parents[2]
# The interpreter of the Debian package.
INSTALLED = '/usr/lib/octavia-xdp/bin/python3'
_HELPER = pathlib.Path(__file__).with_name('xdp_node.py')
# Generous: 10,000 services with large tables take seconds on a busy machine.
_PATIENCE_S = 120.0
_PROTOCOLS = ('tcp', 'udp')


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A scenario's configuration of the product.

    :param encapsulation: ipip, gue, gre, geneve, srv6 or dscp, as in the
        product's options.
    :param dscp: for encapsulation dscp.
    :param sid_function: for encapsulation srv6.
    :param quic: distinguish flows of UDP by connection IDs.
    :param source: send all flows of a client to one member.
    :param slots: size of each service's table; 0: depends on its members.
    :param idle_timeout_s: 0: the product's default.
    :param next_hop: uplinks, or routes (look up the kernel's for each packet).
        auto: uplinks if they can express the next hops.
    :param clamp_mss: clamp the MSS of clients' SYNs.
    :param routing: static, or bgp (ExaBGP on nodes, BIRD on routers).
    :param detection_s: time until static routes exclude a stopped node.
    :param hold_time_s: the same for sessions of BGP.
    :param flows_max: size of the flow memory; 0: the product's default.
    :param library: path that overrides the product's library.
    """

    encapsulation: str = 'ipip'
    dscp: int = 0
    sid_function: int = 0
    quic: bool = False
    source: bool = False
    slots: int = 0
    idle_timeout_s: int = 0
    next_hop: str = 'auto'
    clamp_mss: bool = False
    entropy_v4: int = 0
    entropy_v6: int = 0
    routing: str = 'static'
    detection_s: float = 0.3
    hold_time_s: int = bgp.HOLD_TIME_MIN_S
    flows_max: int = 0
    library: str = ''

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> 'Configuration':
        """:raises BenchError: a key or value is unknown."""
        made = options.read('xdp', cls, given)
        for name, values in (('encapsulation', enumerations.ENCAPSULATIONS),
                             ('next_hop', ('auto', 'uplinks', 'routes')),
                             ('routing', ('static', 'bgp'))):
            if getattr(made, name) not in values:
                raise errors.BenchError(
                    f'software xdp: {name}: "{getattr(made, name)}" is none '
                    f'of {", ".join(values)}')
        if made.hold_time_s < bgp.HOLD_TIME_MIN_S:
            raise errors.BenchError(
                f'software xdp: hold_time_s: {made.hold_time_s} is below '
                f'{bgp.HOLD_TIME_MIN_S}, which RFC 4271 does not allow')
        return made

    def of_services(self) -> dict[str, Any]:
        """Return settings of services for xdp_node.py."""
        flags = [name for name, wanted in (
            ('QUIC', self.quic), ('SOURCE', self.source)) if wanted]
        return {'encapsulation': self.encapsulation.upper(),
                'dscp': self.dscp, 'sid_function': self.sid_function,
                'slots': self.slots, 'flags': flags,
                'idle_timeout_s': self.idle_timeout_s}


class Xdp:
    """The product.

    :param checkout: its library and binding are used if the host has it;
        other and provisioned hosts have the product installed.
    """

    name = 'xdp'

    def __init__(self, checkout: pathlib.Path = CHECKOUT):
        self._checkout = checkout

    def missing(self, bed: beds.Bed) -> str | None:
        for host in bed.by_role(beds.LOAD_BALANCER):
            if self._python(bed, host) is None:
                return self.missing_from(host)
        return None

    def check(self, configuration: Mapping[str, Any]) -> None:
        Configuration.of(configuration)

    @contextlib.contextmanager
    def deploy(self, bed: beds.Bed, services: Sequence[interface.Service],
               configuration: Mapping[str, Any],
               ) -> Iterator['Deployment']:
        wanted = Configuration.of(configuration)
        for service in services:
            if service.protocol not in _PROTOCOLS:
                raise errors.BenchError(
                    f'software xdp: protocol {service.protocol} of '
                    f'{service.vip} is none of {", ".join(_PROTOCOLS)}')
        with contextlib.ExitStack() as stack:
            nodes = {}
            for host in bed.by_role(beds.LOAD_BALANCER):
                nodes[host.name] = node = self._start(bed, host, wanted)
                stack.callback(node.stop)
            made = Deployment(bed, nodes, services, wanted)
            with made:
                yield made

    def _start(self, bed, host, wanted):
        python = self._python(bed, host)
        if python is None:
            raise errors.BenchError(self.missing_from(host))
        command, library = python
        helper = host.put(_HELPER, _HELPER.name)
        return Node(host, host.start(
            ['unshare', '--mount', '--propagation', 'private', *command,
             str(helper), str(host.folder / 'xdp')], log='xdp.log'),
            wanted.library or library)

    @staticmethod
    def missing_from(host: beds.Host) -> str:
        return (f'no Python on {host.name} has octavia_xdp_provider and a '
                'library that it can load: run "make -C datapath" in the '
                'checkout, or install the product on the host')

    def _python(self, bed, host):
        """Return (command, library) of the first Python with the product."""
        built = self._checkout / 'datapath/build/liboctavia_xdp.so'
        candidates: list[tuple[list[str], str | None]] = [
            (['env', INSTALLED], None), (['env', 'python3'], None)]
        if bed.installed is None:
            candidates.insert(0, (
                ['env', f'PYTHONPATH={self._checkout}', sys.executable],
                str(built)))
        for command, library in candidates:
            done = host.run(
                [*command, '-c',
                 'import sys\n'
                 'from octavia_xdp_provider.node import library\n'
                 'library.Library(sys.argv[1] or None)', library or ''],
                check=False)
            if done.returncode == 0:
                return command, library
        return None


class Node:
    """xdp_node.py on a host."""

    def __init__(self, host: beds.Host, process: beds.Process,
                 library: str | None):
        self.host = host
        self.library = library
        self.uplinks: dict[str, dict[str, Any]] = {}
        self._process = process
        self._lock = threading.Lock()

    def call(self, name: str, **arguments: Any) -> Any:
        """:raises BenchError: the call failed, or xdp_node.py ended."""
        with self._lock:
            self._process.write(
                json.dumps({'call': name, **arguments}) + '\n')
            try:
                answer = json.loads(self._process.line(_PATIENCE_S))
            except EOFError:
                log = self.host.read(self.host.folder / 'xdp.log')
                raise errors.BenchError(
                    f'{self.host.name}: xdp_node.py ended: '
                    f'{log.decode(errors="replace").strip()[-800:]}'
                ) from None
        if 'error' in answer:
            raise errors.BenchError(
                f'{self.host.name}: {name}: {answer["error"]}')
        return answer['result']

    def stop(self) -> None:
        self._process.stop()


class Deployment:
    """The product serves from all load balancers."""

    def __init__(self, bed: beds.Bed, nodes: dict[str, Node],
                 services: Sequence[interface.Service],
                 wanted: Configuration):
        self._bed = bed
        self._nodes = nodes
        self._services = {_key(service): service for service in services}
        self._wanted = wanted
        self._alive = list(nodes)
        self._stack = contextlib.ExitStack()
        self._sessions = bgp.Sessions(
            bed, [node.host for node in nodes.values()], self._vips(),
            wanted.hold_time_s) if wanted.routing == 'bgp' else None
        self._meter: cost.Meter | None = None
        # Ids of health checks by (service, address, port) of the member.
        self._checks: dict[tuple[Any, ...], int] = {}

    def __enter__(self) -> 'Deployment':
        """Create the nodes' state, then route packets to them."""
        for node in self._nodes.values():
            self._create(node)
        self.set_services(list(self._services.values()))
        if self._sessions:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._sessions)
                self._sessions.begin()
                self._stack.push(stack.pop_all())
        else:
            self._route()
        return self

    def __exit__(self, *unused: object) -> None:
        """Remove the routes."""
        with self._stack:
            if not self._sessions:
                topology.route_vips(self._bed, self._vips(), [])

    def _create(self, node):
        host = node.host
        front = topology.front(self._bed, host)
        hops = topology.back(self._bed, host)
        by_routes = self._wanted.next_hop == 'routes' or (
            self._wanted.next_hop == 'auto' and _several(hops))
        for hop in hops:
            own = next(end for end in host.interfaces.values()
                       if end.name == hop.interface)
            node.uplinks[hop.interface] = {
                'mtu': own.mtu, 'own_mac': own.mac,
                'next_hop_mac_v4': None if by_routes else hop.mac,
                'next_hop_mac_v6': None if by_routes else hop.mac}
        sources = {f'source_v{version}': next(filter(None, (
            topology.address_of(end, version)
            for end in host.interfaces.values()
            if end.name in node.uplinks)), None) for version in (4, 6)}
        flags = [name for name, wanted in (
            ('FIB', by_routes), ('CLAMP_MSS', self._wanted.clamp_mss))
            if wanted]
        node.call('create', library=node.library,
                  services_max=max(64, len(self._services)),
                  members_max=max(1024, 2 * sum(
                      len(service.members)
                      for service in self._services.values())),
                  flows_max=self._wanted.flows_max,
                  interfaces=sorted({end.name for end in front}
                                    | set(node.uplinks)),
                  uplinks=node.uplinks,
                  settings={**sources, 'flags': flags,
                            'entropy_v4': self._wanted.entropy_v4,
                            'entropy_v6': self._wanted.entropy_v6})

    def cpu_seconds(self) -> float:
        """Return CPU seconds. The first call starts counting, which makes the
        bed receive in kernel threads, unlike in production (cost.py)."""
        if self._meter is None:
            self._meter = self._stack.enter_context(cost.open(self._bed))
            for node in self._nodes.values():
                self._meter.adopt(node.host, node.call('process'))
        return self._meter.cpu_seconds()

    def memory_bytes(self) -> int:
        """Return the size of maps; the product's processes do not run here."""
        return sum(node.call('map_bytes') for node in self._nodes.values())

    def details(self) -> dict[str, dict[str, int]]:
        """Return packets that were not just forwarded, by node and outcome."""
        return {name: node.call('outcomes')
                for name, node in self._nodes.items()}

    def packets_by_vip(self) -> dict[str, dict[str, int]]:
        return {name: node.call('packets')
                for name, node in self._nodes.items()}

    def set_members(self, service: interface.Service) -> None:
        self.set_services([service])

    def set_services(self, services: Sequence[interface.Service]) -> None:
        """Set the members of many services at once."""
        settings = self._wanted.of_services()
        known = len(self._checks)
        wanted = [(service.vip, service.protocol.upper(), service.port,
                   settings, [self._member(service, member)
                              for member in service.members])
                  for service in services]
        for node in self._nodes.values():
            node.call('services', services=wanted)
            # A member without a result of its check takes no flows.
            node.call('health', results=[
                (check, True) for check in self._checks.values()
                if check > known])
        self._services.update((_key(service), service)
                              for service in services)

    def set_health(self, service: interface.Service, address: str,
                   up: bool) -> None:
        """Apply the result of a health check."""
        checks = [check for (key, *name), check in self._checks.items()
                  if key == _key(service) and name[0] == address]
        if not checks:
            raise errors.BenchError(
                f'{service.vip} has no member {address}')
        for node in self._nodes.values():
            node.call('health', results=[(check, up) for check in checks])

    def stop_node(self, host: str) -> None:
        self._nodes[host].call('uplinks', uplinks={})
        self._alive.remove(host)
        if self._sessions:
            self._sessions.silence(host)
        else:
            time.sleep(self._wanted.detection_s)
            self._route()

    def start_node(self, host: str) -> None:
        node = self._nodes[host]
        node.call('uplinks', uplinks=node.uplinks)
        self._alive.append(host)
        if self._sessions:
            self._sessions.restart(host)
        else:
            self._route()

    def _route(self):
        topology.route_vips(
            self._bed, self._vips(),
            [self._nodes[name].host for name in self._nodes
             if name in self._alive])

    def _vips(self):
        return [service.vip for service in self._services.values()]

    def _member(self, service, member):
        name = (_key(service), member.address, member.port)
        check = self._checks.setdefault(name, len(self._checks) + 1)
        # 0 keeps the port.
        port = 0 if member.port == service.port else member.port
        return {'address': member.address, 'weight': member.weight,
                'port': port, 'check': check}


def _key(service):
    return service.vip, service.port, service.protocol


def _several(hops):
    """Whether an interface has more than one next hop."""
    return len({hop.interface for hop in hops}) < len(
        {(hop.interface, hop.mac) for hop in hops})
