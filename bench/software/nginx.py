# SPDX-License-Identifier: Apache-2.0
"""nginx as a proxy of TCP connections and datagrams (its stream module).

It has a worker for each CPU, each with its own listening sockets, and the
timeouts of HAProxy in an amphora. nginx has no health checks; it notices
failures when it connects for a client.
"""

from collections.abc import Sequence
import dataclasses
import signal

from bench import endpoint
from bench.beds import interface as beds
from bench.software import interface
from bench.software import peer
from bench.software import proxy

# Path in Debian's package, unless the module is built into nginx.
MODULE = '/usr/lib/nginx/modules/ngx_stream_module.so'


@dataclasses.dataclass(frozen=True)
class Configuration(peer.Common):
    """:param workers: 0: one for each CPU.
    :param connections_max: concurrent connections of a worker; each client
        needs two.
    """

    workers: int = 0
    connections_max: int = 100_000
    timeout_ms: int = 50_000
    timeout_member_connect_ms: int = 5_000


class Deployment(proxy.Deployment):

    name = 'nginx'
    reload_signal = signal.SIGHUP

    def check(self, services):
        peer.refuse_protocols('nginx', services, ('tcp', 'udp'))

    def command(self, host, path):
        return ['nginx', '-p', str(host.folder), '-c', path, '-e', 'stderr']

    def check_command(self, host, path):
        return [*self.command(host, path), '-t', '-q']

    def text(self, host, services):
        return configuration_text(
            services, self._wanted, _module(host), str(host.folder),
            self.files_max(host))


def configuration_text(services: Sequence[interface.Service],
                       wanted: Configuration, module: str | None,
                       folder: str, files_max: int) -> str:
    """Return nginx's configuration file.

    :param module: the stream module to load; None: it is built in.
    :param folder: folder for the PID file.
    """
    lines = [f'load_module {module};'] if module else []
    lines += ['daemon off;', 'user nobody nogroup;',
              f'worker_processes {wanted.workers or "auto"};',
              f'worker_rlimit_nofile {files_max};',
              f'pid {folder}/nginx-stream.pid;',
              'error_log stderr crit;',
              'events {', f'  worker_connections {wanted.connections_max};',
              '}', 'stream {',
              f'  proxy_timeout {wanted.timeout_ms}ms;',
              f'  proxy_connect_timeout {wanted.timeout_member_connect_ms}ms;']
    for number, service in enumerate(services, 1):
        lines += _service(number, service)
    return '\n'.join([*lines, '}']) + '\n'


def _service(number, service):
    # nginx allows neither weights of 0 nor upstreams without servers.
    members = [member for member in service.members if member.weight]
    if members:
        yield f'  upstream pool{number} {{'
        for member in members:
            yield (f'    server '
                   f'{endpoint.text(member.address, member.port)} '
                   f'weight={member.weight};')
        yield '  }'
    udp = ' udp' if service.protocol == 'udp' else ''
    yield '  server {'
    yield (f'    listen {endpoint.text(service.vip, service.port)}'
           f'{udp} reuseport;')
    yield f'    proxy_pass pool{number};' if members else '    return "";'
    yield '  }'


def _module(host):
    test = host.run(['test', '-e', MODULE], check=False)
    return None if test.returncode else MODULE


def _has_stream(host):
    built = host.run(['nginx', '-V']).stderr
    return _module(host) or ('--with-stream ' in built + ' ')


class Nginx(peer.Software):

    name = 'nginx'
    configuration = Configuration
    deployment = Deployment

    def missing(self, bed: beds.Bed) -> str | None:
        lacking = peer.missing_programs(bed, {'nginx': 'nginx-light',
                                              'ss': 'iproute2'})
        if lacking:
            return lacking
        for host in bed.by_role(beds.LOAD_BALANCER):
            if not _has_stream(host):
                return (f'nginx of {host.name} has no stream module: install '
                        'the Debian package libnginx-mod-stream')
        return None
