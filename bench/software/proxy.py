# SPDX-License-Identifier: Apache-2.0
"""TCP proxies: processes that listen on VIPs and connect to members."""

from collections.abc import Sequence
import pathlib
import re
import signal
import tempfile
import time

from bench import endpoint
from bench import errors
from bench.beds import interface as beds
from bench.software import interface
from bench.software import peer

# The limit of services in amphorae.
FILES_MAX = 2_600_000
_PATIENCE_S = 30.0
_LIMIT = 'ulimit -n "$1" 2> /dev/null || ulimit -n "$(ulimit -Hn)"; '
_START = _LIMIT + 'shift; echo "$$" && exec "$@"'
# Settings of amphorae (elements/haproxy-octavia of Octavia), as far as they
# are per network namespace.
SETTINGS = {
    'net.core.somaxconn': 65534,
    'net.ipv4.tcp_max_syn_backlog': 100000,
    'net.ipv4.tcp_keepalive_time': 300,
    'net.ipv4.tcp_tw_reuse': 1,
    'net.ipv4.tcp_synack_retries': 3,
    'net.ipv4.tcp_mtu_probing': 1,
    'net.ipv4.tcp_fin_timeout': 5,
    'net.ipv4.tcp_rmem': '4096 87380 33554432',
    'net.ipv4.tcp_wmem': '4096 87380 33554432',
    'net.ipv4.ip_local_port_range': '1025 65534',
}
_LISTENERS = re.compile(r'pid=(\d+)')


class Deployment(peer.Deployment):
    """A master process on each load balancer, which replaces its workers when
    a signal makes it reload its configuration.

    :cvar name: name of the software.
    """

    name = ''
    reload_signal = signal.SIGHUP

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._running: dict[str, beds.Process] = {}
        self._masters: dict[str, int] = {}

    # For subclasses.

    def text(self, host: beds.Host,
             services: Sequence[interface.Service]) -> str:
        """Return the configuration."""
        raise NotImplementedError

    def command(self, host: beds.Host, path: str) -> list[str]:
        """Return the command to run in the foreground."""
        raise NotImplementedError

    def check_command(self, host: beds.Host, path: str) -> list[str]:
        """Return a command that fails for an invalid configuration."""
        raise NotImplementedError

    # See peer.Deployment.

    def prepare(self, host, stack):
        stack.enter_context(peer.kernel_settings(host, SETTINGS))

    def start(self, host):
        path = self._configure(host)
        process = host.start(
            ['sh', '-c', _START, 'sh', str(FILES_MAX),
             *self.command(host, path)], log=self._log(host))
        self._running[host.name] = process
        try:
            self._masters[host.name] = int(process.line(_PATIENCE_S))
        except EOFError:
            raise errors.BenchError(f'{host.name}: {self.name} did not start: '
                                    f'{self._log_end(host)}') from None
        self._wait(host, set())

    def apply(self, host, old):
        self._configure(host)
        before = self._listening(host)
        host.run(['kill', f'-{self.reload_signal.name}',
                  str(self._masters[host.name])])
        # If the master listens, it does so for its workers.
        self._wait(host, before - {self._masters[host.name]})

    def stop(self, host):
        process = self._running.pop(host.name, None)
        if process is None:
            return
        # TERM would wait for connections, and a killed master leaves workers.
        if master := self._masters.pop(host.name, None):
            children = host.run(['pgrep', '-P', str(master)],
                                check=False).stdout.split()
            host.run(['kill', '-KILL', str(master), *children], check=False)
        process.stop()
        self._close_sockets(host)

    def files_max(self, host: beds.Host) -> int:
        """Return how many files processes may open, which the machine may
        limit even for root."""
        return int(host.run(['sh', '-c', _LIMIT + 'ulimit -n', 'sh',
                             str(FILES_MAX)]).stdout)

    def processes(self, host):
        return [self._masters[host.name]]

    def _configure(self, host):
        text = self.text(host, list(self._services.values()))
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / 'configuration'
            source.write_text(text)
            path = str(host.put(source, f'{self.name}.conf'))
        checked = host.run(self.check_command(host, path), check=False)
        if checked.returncode:
            raise errors.BenchError(
                f'{host.name}: its configuration is refused: '
                f'{checked.stdout}{checked.stderr}'.strip())
        return path

    def _close_sockets(self, host):
        """Close sockets that outlive processes, mainly in TIME_WAIT. Kernels
        without CONFIG_INET_DIAG_DESTROY keep them for a minute."""
        for service in self._services.values():
            ends = [f'src {endpoint.text(service.vip, service.port)}', *(
                f'dst {endpoint.text(member.address, member.port)}'
                for member in service.members)]
            host.run(['ss', '--kill', '--tcp', '--all', '--numeric',
                      '( ' + ' or '.join(ends) + ' )'], check=False)

    def _wait(self, host, none_of):
        """Wait until all listeners exist, none of them in these processes."""
        wanted = {(service.vip, service.port)
                  for service in self._services.values()}
        deadline = time.monotonic() + _PATIENCE_S * host.patience
        while True:
            if self._running[host.name].poll() is not None:
                raise errors.BenchError(
                    f'{host.name}: it ended: {self._log_end(host)}')
            sockets = self._sockets(host)
            if (wanted <= set(sockets) and
                    not none_of & set().union(*sockets.values())):
                return
            if time.monotonic() > deadline:
                raise errors.BenchError(
                    f'{host.name}: it does not listen as it was told after '
                    f'{_PATIENCE_S * host.patience:g} s: '
                    f'{self._log_end(host)}')
            time.sleep(0.02)

    def _listening(self, host):
        return set().union(*self._sockets(host).values())

    def _sockets(self, host):
        """Return processes that listen or receive, by (address, port)."""
        shown = host.run(['ss', '-Hnlptu']).stdout
        sockets: dict[tuple[str, int], set[int]] = {}
        for line in shown.splitlines():
            address, port = line.split()[4].rsplit(':', 1)
            name = (address.strip('[]'), int(port))
            sockets.setdefault(name, set()).update(
                int(process) for process in _LISTENERS.findall(line))
        return sockets

    def _log(self, host):
        return f'{self.name}.log'

    def _log_end(self, host):
        log = host.read(host.folder / self._log(host))
        return log.decode(errors='replace').strip()[-800:] or 'nothing said'
