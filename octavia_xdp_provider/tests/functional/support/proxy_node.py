# SPDX-License-Identifier: Apache-2.0
"""A proxy node in a namespace: launcher, HAProxy, and the program that takes
LB nodes' tunnels off. A test does what the agent does, with the agent's own
plans."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import types

from lab import processes
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.proxy.agent import orders
from octavia_xdp_provider.proxy.agent import plans
from octavia_xdp_provider.proxy.agent import records
from octavia_xdp_provider.tests.functional.support import private_node

HAPROXY = '/usr/sbin/haproxy'
TOOL = private_node.BUILD / 'octavia-xdp-member'


class ProxyNode:
    """:param case: a HostsCase with this host, whose fabric is at eth0.

    :param number: uid of its HAProxy; each node of a machine has its own.
    :param nodes: networks of LB nodes; ``proxies``: of all proxy nodes.
    """

    def __init__(self, case, host, number, vip_networks, nodes, proxies):
        self._case, self.host, self._number = case, host, number
        processes.run(case.lab, host, [
            str(TOOL), 'setup', '--sysctl', *(
                word for option, networks in (
                    ('--vip-network', vip_networks), ('--node', nodes),
                    ('--member', proxies))
                for network in networks for word in (option, network)),
            'eth0'])
        self._run = pathlib.Path(tempfile.mkdtemp(
            prefix='octavia-xdp-proxy-'))
        self._run.chmod(0o755)
        case.addCleanup(subprocess.run, ['rm', '-rf', self._run], check=True)
        for name in ('wanted', 'secrets'):
            (self._run / name).mkdir()
        self._orders = orders.Orders(types.SimpleNamespace(
            orders=self._run / 'wanted', secrets=self._run / 'secrets'))
        self._path = self._run.with_suffix('.conf')
        self._path.write_text(
            f'[proxy]\nrun_directory = {self._run}\n'
            f'namespace = {case.lab.namespace(host)}\n'
            f'limits = False\ncgroup = /{self._run.name}\n'
            f'haproxy = {HAPROXY}\n')
        case.addCleanup(self._path.unlink)
        self._launcher = self._start()
        case.addCleanup(self._end)

    def _start(self):
        with open(self._case.lab.logs / f'{self.host}.log', 'ab') as log:
            return subprocess.Popen(
                [sys.executable, '-m',
                 'octavia_xdp_provider.cmd.proxy_launcher', '--config-file',
                 str(self._path)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)

    def _end(self):
        self._launcher.kill()
        self._launcher.wait()
        if self._group.exists():
            (self._group / 'cgroup.kill').write_text('1')
            self._case.wait('end of HAProxy', self._remove_groups)

    def _remove_groups(self):
        for directory, _, _ in os.walk(self._group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        return not self._group.exists()

    @property
    def _group(self):
        root = next(line.split()[4] for line
                    in pathlib.Path('/proc/self/mountinfo').read_text()
                    .splitlines() if ' - cgroup2 ' in line)
        return pathlib.Path(root, self._run.name)

    def serve(self, document):
        """Serve a load balancer's document, as the controllers have it; wait
        until it is."""
        key = document['id']
        plan = plans.make(views.for_proxy(document),
                          records.Record(self._number), plans.Node(
                              self.host, (2, 6), 100, 1, 64 << 20, 100, 30),
                          None)
        if plan is None:
            self._orders.remove(key)
            return
        self._orders.write(key, plan)
        self._case.wait('HAProxy', lambda: {
            'phase': 'running', 'configuration_hash':
                plan.launch['configuration_hash'],
        }.items() <= self.state(key).items())

    def state(self, key):
        path = self._run / 'state' / f'{key}.json'
        return json.loads(path.read_text()) if path.exists() else {}

    def signal(self, number):
        """Send a signal to all processes of HAProxy; return their ids."""
        pids = {int(pid) for path in self._group.glob('*/*/cgroup.procs')
                for pid in path.read_text().split()}
        for pid in pids:
            # A worker may end by its master's death.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pids

    def freeze(self):
        """Stop HAProxy, whose sockets go on accepting connections."""
        self.signal(signal.SIGSTOP)
        self._case.addCleanup(self.signal, signal.SIGCONT)
