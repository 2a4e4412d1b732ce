# SPDX-License-Identifier: Apache-2.0
"""The client: it makes many connections and records who answered each."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import http.client
import socket
import time

from lab import background
from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import links

CLIENT = 'client'

# Requests of one curl process, each on its own connection.
_PER_PROCESS = 50
_PROCESSES_AT_ONCE = 4


@dataclasses.dataclass
class Answers:
    """Counts of answers by member, and texts of failures."""

    count: collections.Counter = dataclasses.field(
        default_factory=collections.Counter)
    failures: list = dataclasses.field(default_factory=list)

    def __add__(self, other):
        return Answers(self.count + other.count,
                       self.failures + other.failures)

    @property
    def total(self):
        return sum(self.count.values()) + len(self.failures)


def create(lab):
    """Create the client behind the router."""
    namespaces.create(lab, CLIENT)
    links.open_paths(lab, CLIENT)
    links.connect(lab, CLIENT, links.CLIENT_MTU)
    prefix = paths.CLIENT_NETWORK.prefixlen
    namespaces.address(lab, CLIENT, links.UPLINK,
                       f'{paths.CLIENT_ADDRESS}/{prefix}')
    namespaces.address(lab, links.ROUTER, CLIENT,
                       f'{paths.CLIENT_GATEWAY}/{prefix}')
    namespaces.route(lab, CLIENT, 'default', via=paths.CLIENT_GATEWAY)
    prefix = paths.CLIENT_NETWORK_V6.prefixlen
    namespaces.address(lab, CLIENT, links.UPLINK,
                       f'{paths.CLIENT_ADDRESS_V6}/{prefix}')
    namespaces.address(lab, links.ROUTER, CLIENT,
                       f'{paths.CLIENT_GATEWAY_V6}/{prefix}')
    namespaces.route(lab, CLIENT, 'default', via=paths.CLIENT_GATEWAY_V6)
    # Thousands of short connections would exhaust the default range.
    namespaces.sysctl(lab, CLIENT,
                      net__ipv4__ip_local_port_range='1024 65535')
    lab.state.put('addresses', CLIENT, {'uplink': paths.CLIENT_ADDRESS})


def curl(lab, url, *options, timeout=10):
    """Return the body of one answer; raise LabError if there is none."""
    return processes.run(
        lab, CLIENT, ['curl', '-sS', '-f', '-m', str(timeout), *options, url],
        timeout=timeout + 5).stdout


def requests(lab, url, number=1000, timeout=5):
    """Send requests with curl, each on its own connection."""
    portions = [min(_PER_PROCESS, number - start)
                for start in range(0, number, _PER_PROCESS)]
    with concurrent.futures.ThreadPoolExecutor(_PROCESSES_AT_ONCE) as pool:
        done = pool.map(
            lambda portion: _portion(lab, url, portion, timeout), portions)
        return sum(done, Answers())


class Load(background.Background):
    """Sends requests one after the other until the end of a `with` block.

    `options` are curl's.

    Afterwards `answers` has all answers, and `times` the start of each failed
    request (time.monotonic(), in seconds).
    """

    def __init__(self, lab, url, timeout=5, pause=0.0, options=()):
        super().__init__()
        self.answers = Answers()
        self.times = []
        self._lab = lab
        self._url = url
        self._timeout = timeout
        self._pause = pause
        self._options = options

    def work(self):
        """Send requests until the end of the block."""
        while not self.ending.wait(self._pause):
            started = time.monotonic()
            new = _portion(self._lab, self._url, 1, self._timeout,
                           self._options)
            self.times += [started] * len(new.failures)
            self.answers += new


def udp(lab, address, port, number=100, timeout=2.0):
    """Send datagrams, each from its own port; return the Answers."""
    answers = Answers()
    for i in range(number):
        with _udp_socket(lab, address, port, timeout) as client:
            try:
                client.send(str(i).encode())
                name, echo = client.recv(65535).decode().split(' ', 1)
            except OSError as error:
                answers.failures.append(repr(error))
                continue
            if echo == str(i):
                answers.count[name] += 1
            else:
                answers.failures.append(f'sent {i}, got {echo}')
    return answers


@contextlib.contextmanager
def _udp_socket(lab, address, port, timeout):
    with namespaces.inside(lab, CLIENT):
        client = socket.socket(
            socket.AF_INET6 if ':' in str(address) else socket.AF_INET,
            socket.SOCK_DGRAM)
    with client:
        client.settimeout(timeout)
        client.connect((str(address), port))
        yield client


class Connections:
    """Open connections to an HTTP server, closed at the end of a `with` block.
    """

    def __init__(self, lab, address, port, number):
        self._lab = lab
        self._opened = []
        self._all = [http.client.HTTPConnection(str(address), port, timeout=60)
                     for _ in range(number)]

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.push(self.__exit__)
            for connection in self._all:
                with namespaces.inside(self._lab, CLIENT):
                    connection.connect()
                # A reconnection would come from another namespace.
                connection.auto_open = 0
                self._opened.append(connection)
            stack.pop_all()
        return self

    def __exit__(self, *_exception):
        self.close(len(self._opened))

    def ask(self):
        """Send a request on each, so that the server does not close any.

        :returns: how many were answered.
        """
        answered = 0
        for connection in self._opened:
            connection.request('GET', '/')
            answer = connection.getresponse()
            answer.read()
            answered += answer.status == 200
        return answered

    def close(self, number):
        """Close this number of connections."""
        for _ in range(number):
            self._opened.pop().close()


def _portion(lab, url, number, timeout, options=()):
    """Run one curl process, which fetches its URLs one after the other."""
    # With this header curl closes each connection, by HTTP/1.1.
    command = ['curl', '-sS', '-m', str(timeout), '-H', 'Connection: close',
               '-w', '\\n%{http_code} %{exitcode} %{num_connects} '
               '%{errormsg}\\n', *options]
    done = processes.run(lab, CLIENT, [*command, *[url] * number],
                         timeout=number * (timeout + 1), check=False)
    answers = Answers()
    for body, result in _pairs(done.stdout):
        status, code, connects, *text = result.split(' ', 3)
        if code != '0' or status != '200':
            answers.failures.append(f'{status} {code} {" ".join(text)}')
        elif connects != '1':
            answers.failures.append('no connection of its own')
        else:
            answers.count[body] += 1
    lost = number - answers.total
    answers.failures += [done.stderr[-200:] or 'no result'] * lost
    return answers


def _pairs(output):
    """Yield (body, result) from bodies of one line and results."""
    body = ''
    for line in output.splitlines():
        fields = line.split(' ')
        if len(fields) >= 3 and fields[0].isdigit() and len(fields[0]) == 3:
            yield body, line
            body = ''
        elif line:
            body = line
