# SPDX-License-Identifier: Apache-2.0
"""The network namespace in which all HAProxy processes of a node run."""

from collections.abc import Iterator
import contextlib
import ctypes
import ipaddress
import json
import os
import pathlib
import subprocess

_CLONE_NEWNET = 0x40000000
_DIRECTORY = pathlib.Path('/run/netns')
_SYSCTL = pathlib.Path('/proc/sys/net')
# Routes of the launcher carry this number (rtm_protocol), so that it never
# touches those of others.
_PROTOCOL = '188'

_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """A command has failed."""


def run(command: list[str], text: str = '') -> str:
    """Return the output of a command.

    :raises Failure: with the command's own error text.
    """
    done = subprocess.run(command, input=text, text=True, check=False,
                          capture_output=True, timeout=60)
    if done.returncode:
        raise Failure(f'{" ".join(command)}: {done.stderr.strip()}')
    return done.stdout


class Namespace:
    """The namespace of a name, which ``make`` creates or prepares."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = str(_DIRECTORY / name)
        self._file = -1
        self._routes: set[str] | None = None

    def make(self) -> None:
        """Join the namespace; create it if there is none.

        :raises Failure: it cannot be created.
        """
        if not os.path.exists(self.path):
            run(['ip', 'netns', 'add', self.name])
        self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        run(['ip', '-n', self.name, 'link', 'set', 'lo', 'up'])
        with self.entered():
            self._reserve_ports()

    def _reserve_ports(self) -> None:
        """Let nobody without capabilities bind a port.

        The kernel allows it below the ports that it chooses itself for
        outgoing connections. A process that is taken over could otherwise
        take a port of another load balancer's address.
        """
        ipv4 = _SYSCTL / 'ipv4'
        low = (ipv4 / 'ip_local_port_range').read_text().split()[0]
        (ipv4 / 'ip_unprivileged_port_start').write_text(low)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Run the calling thread in the namespace, and then back in its
        own."""
        own = os.open('/proc/thread-self/ns/net', os.O_RDONLY | os.O_CLOEXEC)
        try:
            _set(self._file)
            try:
                yield
            finally:
                _set(own)
        finally:
            os.close(own)

    def set_local(self, addresses: set[str]) -> None:
        """Make the kernel accept packets to exactly these addresses, besides
        those of interfaces. Only what differs is changed.

        :raises Failure: a route cannot be changed.
        """
        if self._routes is None:
            self._routes = self._list_routes()
        lines = [f'route {verb} local {address} dev lo proto {_PROTOCOL}\n'
                 for verb, changed in (('replace', addresses - self._routes),
                                       ('del', self._routes - addresses))
                 for address in sorted(changed)]
        if not lines:
            return
        self._routes = None
        run(['ip', '-n', self.name, '-batch', '-'], ''.join(lines))
        self._routes = set(addresses)

    def forget(self) -> None:
        """Compare with the kernel at the next ``set_local``."""
        self._routes = None

    def _list_routes(self) -> set[str]:
        return {str(ipaddress.ip_address(route['dst']))
                for family in ('-4', '-6')
                for route in json.loads(run(
                    ['ip', '-n', self.name, '-j', family, 'route', 'show',
                     'table', 'local', 'proto', _PROTOCOL]) or '[]')}


def _set(file: int) -> None:
    if _libc.setns(file, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f'setns: {os.strerror(number)}')
