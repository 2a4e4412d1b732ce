# SPDX-License-Identifier: Apache-2.0
"""A bed of network namespaces: generator, router, load balancers, members.

Each host's only link goes to the router, whose devices are named after the
hosts. 198.18.N.0/24 is the network of host N.
"""

import contextlib
import os
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading

from bench import errors
from bench.beds import interface
from lab import paths

ROUTER = 'router'
MEMBER_TOOL = paths.CHECKOUT / 'datapath' / 'build' / 'octavia-xdp-member'


class Process:
    """Of bench.beds.interface."""

    def __init__(self, arguments, log):
        with open(log, 'ab') as errors_to:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors_to, text=True)
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.rstrip('\n'))
        self._lines.put(None)

    def poll(self):
        return self._process.poll()

    def wait(self, timeout):
        return self._process.wait(timeout)

    def write(self, text):
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def line(self, timeout):
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty as error:
            raise subprocess.TimeoutExpired('line', timeout) from error
        if line is None:
            self._lines.put(None)
            raise EOFError
        return line

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self, timeout=5):
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
        status = self._process.wait(timeout)
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        return status


class Host:
    """Of bench.beds.interface."""

    def __init__(self, name, role, namespace, folder):
        self.name, self.role, self.namespace = name, role, namespace
        self.folder = pathlib.PurePosixPath(folder)
        self.interfaces = {}
        self.processes = []

    def _inside(self, arguments):
        return ['ip', 'netns', 'exec', self.namespace, 'setpriv',
                '--pdeathsig', 'KILL', '--', *map(str, arguments)]

    def run(self, arguments, *, check=True, timeout=60, stdin=None):
        done = subprocess.run(self._inside(arguments), text=True,
                              capture_output=True, timeout=timeout,
                              input=stdin or '')
        if check and done.returncode:
            raise errors.BenchError(f'{self.name}: {arguments}: '
                                    f'{done.stdout}{done.stderr}')
        return done

    def start(self, arguments, *, log):
        process = Process(self._inside(arguments), self.folder / log)
        self.processes.append(process)
        return process

    def put(self, source, name):
        return pathlib.PurePosixPath(shutil.copy(source, self.folder / name))

    def read(self, path):
        return pathlib.Path(path).read_bytes()


class Bed:
    """Of bench.beds.interface."""

    def __init__(self, name, hosts):
        self.name, self.hosts = name, hosts

    def by_role(self, role):
        return [host for host in self.hosts.values() if host.role == role]

    def fingerprint(self):
        return {}


@contextlib.contextmanager
def build(nodes=1, members=2):
    """A bed of so many load balancers and members."""
    roles = {ROUTER: interface.ROUTER, 'client': interface.GENERATOR}
    roles |= {f'lb{i + 1}': interface.LOAD_BALANCER for i in range(nodes)}
    roles |= {f'member{i + 1}': interface.MEMBER for i in range(members)}
    prefix = f'bp{os.getpid()}-'
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        hosts = {}
        for name, role in roles.items():
            (pathlib.Path(folder) / name).mkdir()
            hosts[name] = Host(name, role, prefix + name,
                               pathlib.Path(folder) / name)
            _ip('netns', 'add', hosts[name].namespace)
            stack.callback(_remove, hosts[name])
            hosts[name].run(['ip', 'link', 'set', 'lo', 'up'])
        for number, name in enumerate(name for name in hosts
                                      if name != ROUTER):
            _link(hosts[ROUTER], hosts[name], number + 1)
        hosts[ROUTER].run(['sysctl', '-qw', 'net.ipv4.ip_forward=1',
                           'net.ipv4.fib_multipath_hash_policy=1'])
        yield Bed('test', hosts)


def _link(router, host, number):
    _ip('link', 'add', 'eth0', 'netns', host.namespace, 'type', 'veth', 'peer',
        'name', host.name, 'netns', router.namespace)
    for end, device, last, peer in ((host, 'eth0', 2, router),
                                    (router, host.name, 1, host)):
        address = f'198.18.{number}.{last}/24'
        for path in ('all', 'default', device):
            end.run(['sysctl', '-qw', f'net.ipv4.conf.{path}.rp_filter=0'])
        end.run(['ip', 'address', 'add', address, 'dev', device])
        end.run(['ip', 'link', 'set', device, 'mtu', '1600', 'up'])
        end.run(['ethtool', '-K', device, 'tx', 'off', 'tso', 'off', 'gso',
                 'off'])
        mac = end.run(['cat', f'/sys/class/net/{device}/address']).stdout
        end.interfaces[host.name] = interface.Interface(
            device, host.name, mac.strip(), 1600, (address,), (peer.name,))
    host.run(['ip', 'route', 'add', 'default', 'via', f'198.18.{number}.1'])
    # Any program does: without one, veth takes no frames of XDP.
    router.run([MEMBER_TOOL, 'setup', '--any-source', '--mss', 'off',
                host.name])


def _remove(host):
    for process in host.processes:
        process.stop()
    _ip('netns', 'delete', host.namespace)


def _ip(*arguments):
    subprocess.run(['ip', *arguments], check=True)
