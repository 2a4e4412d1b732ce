# SPDX-License-Identifier: Apache-2.0
"""Routes to VIPs by BGP, with the product's ExaBGP and announcer on nodes and
BIRD on routers, which spread flows over all nodes that announce a VIP."""

from collections.abc import Sequence
import contextlib
import ipaddress
import json
import pathlib
import sys
import tempfile
import time

from bench import errors
from bench.beds import interface as beds
from bench.software import topology
from lab.fabric import router as lab_router
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import exabgp_config
from octavia_xdp_provider.agent.bgp import route

ROUTER_AS, NODE_AS = 65000, 65010
# A hold time is 0 or at least three seconds (RFC 4271, 4.2).
HOLD_TIME_MIN_S = 3
_PATIENCE_S = 60.0
_LOOK_S = 0.05
_PROGRAMS = ('exabgp', 'octavia-xdp-announcer')

_SESSION = '''\
protocol bgp {name} {{
    local as {router_as};
    neighbor {address} as {node_as};
    passive yes;
    direct;
    hold time {hold_time};
    error wait time 1, 2;
    graceful restart off;
    ipv4 {{ import all; export none; }};
    ipv6 {{ import all; export none; }};
}}
'''


class Sessions(contextlib.ExitStack):
    """Sessions of each node with each of its routers.

    :param hold_time_s: time until routers notice that a node is silent.
    """

    def __init__(self, bed: beds.Bed, nodes: Sequence[beds.Host],
                 vips: Sequence[str], hold_time_s: int):
        super().__init__()
        self._bed = bed
        self._nodes = {host.name: host for host in nodes}
        self._vips = sorted(set(vips))
        self._hold_time_s = hold_time_s
        self._speakers: dict[str, beds.Process] = {}
        self._ends = {host.name: list(_ends(bed, host)) for host in nodes}

    def begin(self) -> None:
        """Announce all VIPs from all nodes and wait for the routes.

        :raises BenchError: there is no router, or it learns no routes.
        """
        routers = self._bed.by_role(beds.ROUTER)
        if not routers or not all(self._ends.values()):
            raise errors.BenchError(
                f'bed {self._bed.name}: BGP needs a router that each load '
                'balancer has a link with IPv4 addresses to')
        for router in routers:
            self._start_bird(router)
        for host in self._nodes.values():
            self._start_speaker(host)
        for name in self._nodes:
            self.wait(name, announced=True)

    def silence(self, name: str) -> None:
        """Silence a node without closing its sessions."""
        self._signal(self._nodes[name], 'STOP')
        self.wait(name, announced=False)

    def restart(self, name: str) -> None:
        """Kill a node's speaker and start a new one."""
        self._signal(self._nodes[name], 'KILL')
        self._speakers.pop(name).stop()
        self._start_speaker(self._nodes[name])
        self.wait(name, announced=True)

    def wait(self, name: str, announced: bool) -> None:
        """Wait until routers send VIPs to the node, or no longer do.

        :raises BenchError: it does not happen in time.
        """
        deadline = time.monotonic() + _PATIENCE_S + self._hold_time_s
        while any(self._leads(end) is not announced
                  for end in self._ends[name]):
            if time.monotonic() > deadline:
                raise errors.BenchError(
                    f'the routes of {name} do not become what BGP says; its '
                    'log: ' + self._nodes[name].read(
                        self._nodes[name].folder / 'exabgp.log').decode(
                        errors='replace')[-600:])
            time.sleep(_LOOK_S)

    def _leads(self, end):
        """Whether a router has a route to the last VIP through this node."""
        router, own, _peer = end
        version = 6 if ':' in self._vips[-1] else 4
        routes = json.loads(router.run(
            ['ip', '-json', f'-{version}', 'route', 'show', 'exact',
             self._vips[-1], 'proto', 'bird']).stdout or '[]')
        wanted = {own, self._other(own)}
        return any(hop.get('gateway') in wanted for entry in routes
                   for hop in entry.get('nexthops', [entry]))

    def _other(self, address):
        """Return the IPv6 address of the end with this IPv4 address."""
        for host in self._nodes.values():
            for end in host.interfaces.values():
                if topology.address_of(end, 4) == address:
                    return topology.address_of(end, 6)
        return None

    def _start_bird(self, router):
        ends = [(name, own) for name, ends in self._ends.items()
                for host, own, _peer in ends if host is router]
        text = lab_router.HEADING.format(router_id=next(
            peer for ends in self._ends.values()
            for host, _own, peer in ends if host is router))
        for number, (_name, own) in enumerate(ends):
            text += _SESSION.format(
                name=f'node{number}', address=own, router_as=ROUTER_AS,
                node_as=NODE_AS, hold_time=self._hold_time_s)
        path = _write(router, 'bird.conf', text)
        process = router.start(
            ['bird', '-f', '-c', path, '-s', str(router.folder / 'bird.ctl'),
             '-P', str(router.folder / 'bird.pid')], log='bird.log')
        self.callback(process.stop)

    def _start_speaker(self, host):
        exabgp, announcer = (_program(host, name) for name in _PROGRAMS)
        file = _write(host, announcements.FILE_NAME, announcements.encode(
            [self._route(host, vip) for vip in self._vips]).decode())
        text = exabgp_config.render(
            self._ends[host.name][0][1],
            [exabgp_config.Neighbour(
                own, NODE_AS, peer, ROUTER_AS, self._hold_time_s,
                ('ipv4 unicast', 'ipv6 unicast'))
             for _router, own, peer in self._ends[host.name]],
            [announcer, '--file', file, '--network', '0.0.0.0/0',
             '--network', '::/0'])
        variables = {**exabgp_config.ENVIRONMENT,
                     'exabgp_daemon_user': 'root'}
        process = host.start(
            ['env', *(f'{name}={value}'
                      for name, value in variables.items()),
             'sh', '-c', 'echo $$ > "$0" && exec "$@"', _pid_file(host),
             exabgp, _write(host, 'exabgp.conf', text)], log='exabgp.log')
        self._speakers[host.name] = process
        self.callback(process.stop)

    def _route(self, host, vip):
        network = ipaddress.ip_network(vip)
        # Sessions use IPv4 and carry routes of both families.
        own = self._other(self._ends[host.name][0][1])
        if network.version == 4:
            return route.Route(network)
        if own is None:
            raise errors.BenchError(
                f'bed {self._bed.name}: {host.name} has no IPv6 address at '
                f'its link to the router, for {vip}')
        return route.Route(network, ipaddress.ip_address(own))

    def _signal(self, host, name):
        host.run(['sh', '-c', f'kill -{name} "$(cat "$0")"',
                  _pid_file(host)])


def _ends(bed, host):
    """Yield (router, the node's address, the router's) of links to routers."""
    for end in host.interfaces.values():
        for peer in end.peers:
            router = bed.hosts[peer]
            own = topology.address_of(end, 4)
            if router.role != beds.ROUTER or own is None:
                continue
            for other in router.interfaces.values():
                address = topology.address_of(other, 4)
                if other.link == end.link and host.name in other.peers and (
                        address):
                    yield router, own, address


def _pid_file(host):
    return str(host.folder / 'exabgp.pid')


def _write(host, name, text):
    with tempfile.NamedTemporaryFile('w') as file:
        file.write(text)
        file.flush()
        return str(host.put(pathlib.Path(file.name), name))


def _program(host, name):
    own = pathlib.Path(sys.executable).parent / name
    for path in (str(own), name):
        lookup = host.run(['sh', '-c', 'command -v "$0"', path], check=False)
        if lookup.returncode == 0:
            return lookup.stdout.strip()
    raise errors.BenchError(f'{host.name} has no {name}: install the product '
                            'on the host')
