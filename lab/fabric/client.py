# SPDX-License-Identifier: Apache-2.0
"""The client: many connections, and who answered each."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import errno
import http.client
import socket
import time

from lab import background
from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import links

CLIENT = 'client'

# Of linux/in.h and linux/in6.h; the socket module has no names for them.
IP_MTU_DISCOVER, IP_MTU = 10, 14
IPV6_MTU_DISCOVER, IPV6_MTU = 23, 24
PMTUDISC_DO = 2

# Requests that one curl process makes, each on a connection of its own.
_PER_PROCESS = 50
_PROCESSES_AT_ONCE = 4


@dataclasses.dataclass
class Answers:
    """Who answered how often, and what went wrong."""

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
    """Make the client behind the router."""
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
    # Thousands of short connections would use up the default range.
    namespaces.sysctl(lab, CLIENT,
                      net__ipv4__ip_local_port_range='1024 65535')
    lab.state.put('addresses', CLIENT, {'uplink': paths.CLIENT_ADDRESS})


def curl(lab, url, *options, timeout=10):
    """The body of one answer; LabError if there is none."""
    return processes.run(
        lab, CLIENT, ['curl', '-sS', '-f', '-m', str(timeout), *options, url],
        timeout=timeout + 5).stdout


def requests(lab, url, number=1000, timeout=5):
    """Make requests with curl, each on a connection of its own."""
    portions = [min(_PER_PROCESS, number - start)
                for start in range(0, number, _PER_PROCESS)]
    with concurrent.futures.ThreadPoolExecutor(_PROCESSES_AT_ONCE) as pool:
        done = pool.map(
            lambda portion: _portion(lab, url, portion, timeout), portions)
        return sum(done, Answers())


class Load(background.Background):
    """Requests one after the other until the end of a `with` block.

    `answers` holds afterwards who answered, `times` the start of each failed
    request (time.monotonic(), in seconds).
    """

    def __init__(self, lab, url, timeout=5, pause=0.0):
        super().__init__()
        self.answers = Answers()
        self.times = []
        self._lab = lab
        self._url = url
        self._timeout = timeout
        self._pause = pause

    def work(self):
        """Make requests until the end of the block."""
        while not self.ending.wait(self._pause):
            started = time.monotonic()
            new = _portion(self._lab, self._url, 1, self._timeout)
            self.times += [started] * len(new.failures)
            self.answers += new


def udp(lab, address, port, number=100, timeout=2.0):
    """Send datagrams, each from a port of its own; who answered each."""
    answers = Answers()
    for i in range(number):
        with namespaces.inside(lab, CLIENT):
            one = socket.socket(
                socket.AF_INET6 if ':' in str(address) else socket.AF_INET,
                socket.SOCK_DGRAM)
        with one:
            one.settimeout(timeout)
            one.connect((str(address), port))
            try:
                one.send(str(i).encode())
                name, echo = one.recv(65535).decode().split(' ', 1)
            except OSError as error:
                answers.failures.append(repr(error))
                continue
            if echo == str(i):
                answers.count[name] += 1
            else:
                answers.failures.append(f'sent {i}, got {echo}')
    return answers


class Connections:
    """Connections to an HTTP server that stay open until the end of a `with`
    block."""

    def __init__(self, lab, address, port, number):
        self._lab = lab
        self._opened = []
        self._all = [http.client.HTTPConnection(str(address), port, timeout=60)
                     for _ in range(number)]

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.push(self.__exit__)
            for one in self._all:
                with namespaces.inside(self._lab, CLIENT):
                    one.connect()
                one.auto_open = 0  # never again, and from nowhere else
                self._opened.append(one)
            stack.pop_all()
        return self

    def __exit__(self, *_exception):
        self.close(len(self._opened))

    def ask(self):
        """A request over each, so that the server does not close any.

        :returns: how many were answered.
        """
        answered = 0
        for one in self._opened:
            one.request('GET', '/')
            answer = one.getresponse()
            answer.read()
            answered += answer.status == 200
        return answered

    def close(self, number):
        """Close so many of them, in order."""
        for _ in range(number):
            self._opened.pop().close()


def path_mtu(lab, address, port, timeout=10):
    """The path MTU that datagrams learn; LabError if they never do."""
    version = 6 if ':' in str(address) else 4
    level, discover, mtu = {
        4: (socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_MTU),
        6: (socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_MTU)}[version]
    with namespaces.inside(lab, CLIENT):
        one = socket.socket(
            socket.AF_INET6 if version == 6 else socket.AF_INET,
            socket.SOCK_DGRAM)
    with one:
        one.setsockopt(level, discover, PMTUDISC_DO)
        one.settimeout(0.2)
        one.connect((str(address), port))
        full = links.CLIENT_MTU - (48 if version == 6 else 28)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            try:
                one.send(bytes(full))
                one.recv(65535)
            except TimeoutError:
                continue
            except OSError as error:
                if error.errno != errno.EMSGSIZE:
                    raise
                return one.getsockopt(level, mtu)
    raise paths.LabError(f'no ICMP message with the path MTU to {address}')


def _portion(lab, url, number, timeout):
    """One curl process; its URLs are fetched one after the other."""
    # With this header curl ends each connection, as HTTP/1.1 wants it.
    command = ['curl', '-sS', '-m', str(timeout), '-H', 'Connection: close',
               '-w', '\\n%{http_code} %{exitcode} %{num_connects} '
               '%{errormsg}\\n']
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
    """(body, result) from bodies of one line and results."""
    body = ''
    for line in output.splitlines():
        fields = line.split(' ')
        if len(fields) >= 3 and fields[0].isdigit() and len(fields[0]) == 3:
            yield body, line
            body = ''
        elif line:
            body = line
