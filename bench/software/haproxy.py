# SPDX-License-Identifier: Apache-2.0
"""HAProxy for TCP, as run by amphorae: what Octavia's users have today.

The effective settings are those of Octavia 19's amphorae for a TCP listener
with a pool (its templates for HAProxy, defaults of its options, its systemd
unit): a master with one worker, threads for all CPUs, 50,000 connections, 50 s
of silence allowed on either side and 5 s to connect, three retries with
redispatch, splicing, round robin, members checked by connecting. Differences:

- No log. Amphorae send a line for each connection to a syslog server unless
  Octavia's connection_logging is off, so HAProxy is cheaper here.
- No statistics socket, as no agent reads statistics here.
- One process serves all services; amphorae have one for each load balancer.
- Kernel settings of the whole machine are left alone.
"""

from collections.abc import Sequence
import dataclasses
import signal

from bench import endpoint
from bench.beds import interface as beds
from bench.software import interface
from bench.software import peer
from bench.software import proxy


@dataclasses.dataclass(frozen=True)
class Configuration(peer.Common):
    """:param threads: 0: HAProxy's default, one for each CPU.
    :param connections_max: concurrent connections of a listener.
    :param timeout_client_ms: of silence, like timeout_member_data_ms.
    :param check_interval_s: between two checks of a member; 0: no checks.
    """

    threads: int = 0
    connections_max: int = 50_000
    timeout_client_ms: int = 50_000
    timeout_member_connect_ms: int = 5_000
    timeout_member_data_ms: int = 50_000
    check_interval_s: int = 5
    check_timeout_s: int = 5
    rise: int = 3
    fall: int = 3


class Deployment(proxy.Deployment):

    name = 'haproxy'
    reload_signal = signal.SIGUSR2

    def __init__(self, bed, services, wanted):
        super().__init__(bed, services, wanted)
        self.limits: dict[str, int] = {}

    def check(self, services):
        peer.refuse_protocols(
            'haproxy', services, ('tcp',),
            'for UDP amphorae run IPVS, under keepalived')

    def command(self, host, path):
        return ['haproxy', '-W', '-db', '-f', path]

    def check_command(self, host, path):
        return ['haproxy', '-c', '-q', '-f', path]

    def text(self, host, services):
        # Two sockets for each connection, a pipe to splice for every fourth,
        # and some for listeners and threads.
        spare = 100 + 10 * len(services)
        fitting = (self.files_max(host) - spare) * 2 // 5 // len(services)
        limit = min(self._wanted.connections_max, fitting)
        self.limits[host.name] = limit
        return configuration_text(services, dataclasses.replace(
            self._wanted, connections_max=limit))

    def details(self):
        """Return concurrent connections of a listener by node, which are fewer
        than configured if the machine limits open files of root."""
        return {host: {'connections_max': limit}
                for host, limit in self.limits.items()}


def configuration_text(services: Sequence[interface.Service],
                       wanted: Configuration) -> str:
    """Return HAProxy's configuration file."""
    limit = wanted.connections_max * len(services)
    lines = ['global', '  user nobody', f'  maxconn {limit}']
    if wanted.threads:
        lines.append(f'  nbthread {wanted.threads}')
    lines += ['defaults', '  mode tcp', '  no log', '  retries 3',
              '  option redispatch', '  option splice-request',
              '  option splice-response',
              f'  timeout client {wanted.timeout_client_ms}ms',
              f'  timeout connect {wanted.timeout_member_connect_ms}ms',
              f'  timeout server {wanted.timeout_member_data_ms}ms']
    for number, service in enumerate(services, 1):
        lines += _service(number, service, wanted)
    return '\n'.join(lines) + '\n'


def _service(number, service, wanted):
    yield f'frontend listener{number}'
    yield f'  maxconn {wanted.connections_max}'
    yield f'  bind {endpoint.text(service.vip, service.port)}'
    yield f'  default_backend pool{number}'
    yield f'backend pool{number}'
    yield '  balance roundrobin'
    yield '  option allbackups'
    yield f'  fullconn {wanted.connections_max}'
    check = ''
    if wanted.check_interval_s:
        yield f'  timeout check {wanted.check_timeout_s}s'
        check = (f' check inter {wanted.check_interval_s}s fall {wanted.fall} '
                 f'rise {wanted.rise}')
    for place, member in enumerate(service.members, 1):
        yield (f'  server member{place} '
               f'{endpoint.text(member.address, member.port)} '
               f'weight {member.weight}{check}')


class Haproxy(peer.Software):

    name = 'haproxy'
    configuration = Configuration
    deployment = Deployment

    def missing(self, bed: beds.Bed) -> str | None:
        return peer.missing_programs(bed, {'haproxy': 'haproxy',
                                           'ss': 'iproute2'})
