# SPDX-License-Identifier: Apache-2.0
"""Servers on members: stock nginx, and iperf3 for bulk transfers.

Members are the same for all software under test: they have the VIPs, and the
product's XDP program for members decapsulates packets. It leaves packets
without a tunnel alone.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import pathlib
import tempfile
import time

from bench import errors
from bench.beds import interface as beds
from bench.software import interface
from bench.traffic import member_tool

_PATIENCE_S = 30.0
_SETTINGS = ('net.core.somaxconn=65534', 'net.ipv4.tcp_max_syn_backlog=65536',
             'net.ipv4.tcp_fin_timeout=5')
_NGINX = '''\
daemon off;
worker_processes auto;
worker_rlimit_nofile 100000;
pid {folder}/servers.pid;
error_log stderr crit;
events {{ worker_connections 20000; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    default_type text/plain;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    server {{
        {listen}
        location = / {{ return 200 "{body}"; }}
        location = /name {{ return 200 "{host}\\n"; }}
    }}
}}
'''


@contextlib.contextmanager
def http(bed: beds.Bed, services: Sequence[interface.Service],
         body_bytes: int = 100) -> Iterator[None]:
    """Run nginx on each member: / has a body of this size, /name the host.

    :raises BenchError: a member does not serve.
    """
    with contextlib.ExitStack() as stack:
        for host in _members(bed, services):
            stack.enter_context(_taking_vips(host, services))
            stack.enter_context(_nginx(host, _ports(host, services),
                                       body_bytes))
        yield


@contextlib.contextmanager
def bulk(bed: beds.Bed, service: interface.Service) -> Iterator[None]:
    """Run iperf3 on the only member.

    :raises BenchError: the service has several members.
    """
    if len(service.members) != 1:
        raise errors.BenchError(
            f'iperf3 needs a service with one member, {service.vip} has '
            f'{len(service.members)}: its connections belong together, and '
            'load balancers tell them apart')
    (host,) = _members(bed, [service])
    port = service.members[0].port
    with _taking_vips(host, [service]):
        process = host.start(['iperf3', '--server', '--port', str(port)],
                             log='iperf3.log')
        try:
            _wait(host, process, {port}, 'iperf3.log')
            yield
        finally:
            process.stop()


def _members(bed, services):
    names = dict.fromkeys(member.host for service in services
                          for member in service.members)
    for name in names:
        if name not in bed.hosts:
            raise errors.BenchError(f'bed {bed.name} has no host "{name}", '
                                    'whose address a member has')
    return [bed.hosts[name] for name in names]


def _ports(host, services):
    return {member.port for service in services for member in service.members
            if member.host == host.name}


@contextlib.contextmanager
def _taking_vips(host, services):
    tool = member_tool.find(host)
    vips = sorted({service.vip for service in services
                   if any(member.host == host.name
                          for member in service.members)})
    host.run(['sysctl', '-qw', *_SETTINGS])
    with contextlib.ExitStack() as stack:
        for end in host.interfaces.values():
            words = [word for vip in vips for word in ('--vip', vip)]
            stack.callback(host.run, [tool, 'remove', end.name], check=False)
            host.run([tool, 'setup', '--any-source', '--sysctl', '--mss',
                      'auto', *words, end.name])
        yield


@contextlib.contextmanager
def _nginx(host, ports, body_bytes):
    listen = ' '.join(f'listen 0.0.0.0:{port} reuseport backlog=65534; '
                      f'listen [::]:{port} reuseport backlog=65534;'
                      for port in sorted(ports))
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'servers.conf'
        source.write_text(_NGINX.format(
            folder=host.folder, listen=listen, host=host.name,
            body='x' * max(0, body_bytes - 1) + '\\n' * (body_bytes > 0)))
        path = host.put(source, source.name)
    process = host.start(['nginx', '-p', str(host.folder), '-c', str(path),
                          '-e', 'stderr'], log='servers.log')
    try:
        _wait(host, process, ports, 'servers.log')
        yield
    finally:
        process.stop()


def _wait(host, process, ports, log):
    """Wait until the server listens on all ports."""
    deadline = time.monotonic() + _PATIENCE_S * host.patience
    while True:
        shown = host.run(['ss', '-Hnlt']).stdout
        listening = {int(line.split()[3].rsplit(':', 1)[1])
                     for line in shown.splitlines()}
        if ports <= listening:
            return
        if process.poll() is not None or time.monotonic() > deadline:
            text = host.read(host.folder / log).decode(errors='replace')
            raise errors.BenchError(
                f'{host.name}: its server does not listen on '
                f'{", ".join(map(str, sorted(ports - listening)))}: '
                f'{text.strip()[-400:] or "nothing said"}')
        time.sleep(0.02)
