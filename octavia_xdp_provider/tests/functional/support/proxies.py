# SPDX-License-Identifier: Apache-2.0
"""A proxy node with its launcher, a client, and members."""

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from lab import namespaces
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.tests.functional.support import hosts

HAPROXY = '/usr/sbin/haproxy'
VIP, VIP_V6 = '203.0.113.10', '2001:db8:3::10'
OTHER_VIP = '203.0.113.11'
MEMBER, OTHER_MEMBER = '198.51.100.2', '198.51.100.3'
FIRST = '11111111-1111-4111-8111-111111111111'
SECOND = '22222222-2222-4222-8222-222222222222'

_CONFIGURATION = '''
global
    maxconn {connections}
    nbthread 1
    hard-stop-after 60s
    mworker-max-reloads 3
defaults
    mode http
    option idle-close-on-response
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    retries 0
frontend listener
{binds}
    http-response set-header X-Answer {answer}
    default_backend pool
backend pool
    server member {member}:80
'''


def configuration(answer='one', member=MEMBER, binds=1, connections=100):
    return _CONFIGURATION.format(
        answer=answer, member=member, connections=connections,
        binds='\n'.join(
            f'    bind fd@${{LISTENER_{place}}}' for place in range(binds)))


def launch(text, number=70001, sockets=((VIP, 80),), members=(MEMBER,),
           **more):
    """Return a launch file.

    :param sockets: addresses and ports, by name or in order.
    """
    if not isinstance(sockets, dict):
        sockets = {f'LISTENER_{place}': endpoint
                   for place, endpoint in enumerate(sockets)}
    return {
        'number': number,
        'sockets': [{'name': name, 'address': address, 'port': port}
                    for name, (address, port) in sockets.items()],
        'members': [{'address': address, 'port': 80} for address in members],
        'connections': 100, 'threads': 1, 'memory_bytes': 64 << 20,
        'cpu_weight': 100, 'stop_after_s': 30, 'certificates': None,
        'configuration_hash': hashlib.sha256(text.encode()).hexdigest(),
        **more}


def status(pid):
    """Fields of /proc/<pid>/status."""
    lines = pathlib.Path(f'/proc/{pid}/status').read_text().splitlines()
    return {name: value.strip() for name, _, value
            in (line.partition(':') for line in lines)}


class _Answers(http.server.BaseHTTPRequestHandler):

    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'ok')

    def log_message(self, *_):
        pass


class _Server(http.server.ThreadingHTTPServer):

    def handle_error(self, *_):
        """A HAProxy that is killed resets its connections."""


class ProxiesCase(hosts.HostsCase):
    """Needs root.

    :ivar limits: whether the launcher must limit memory and time.
    :ivar options: further lines of its configuration.
    """

    limits = False
    options = ''
    haproxy = HAPROXY

    def setUp(self):
        super().setUp()
        if not os.path.exists(HAPROXY):
            self.skipTest('haproxy is not installed')
        self.add_hosts('proxy', 'client', 'member')
        self.cable(('client', 'eth0', '192.0.2.2', '2001:db8:1::2'),
                   ('proxy', 'client', '192.0.2.1', '2001:db8:1::1'))
        self.cable(('member', 'eth0', MEMBER, OTHER_MEMBER),
                   ('proxy', 'member', '198.51.100.1'))
        for gateway in ('192.0.2.1', '2001:db8:1::1'):
            self.ip('client', 'route', 'add', 'default', 'via', gateway)
        self.run_directory = pathlib.Path(tempfile.mkdtemp(
            prefix='octavia-xdp-proxy-'))
        self.run_directory.chmod(0o755)
        self.addCleanup(self._remove_run_directory)
        self.launcher = None
        self.addCleanup(self._end)

    def _remove_run_directory(self):
        subprocess.run(['rm', '-rf', str(self.run_directory)], check=True)

    # The launcher.

    def start_launcher(self, wait=True):
        path = self.run_directory.with_suffix('.conf')
        path.write_text(
            f'[proxy]\nrun_directory = {self.run_directory}\n'
            f'namespace = {self.lab.namespace("proxy")}\n'
            f'limits = {self.limits}\ncgroup = {self.cgroup}\n'
            f'haproxy = {self.haproxy}\n{self.options}')
        self.addCleanup(path.unlink, missing_ok=True)
        with open(self.lab.logs / 'launcher.log', 'ab') as log:
            self.launcher = subprocess.Popen(
                [sys.executable, '-m',
                 'octavia_xdp_provider.cmd.proxy_launcher', '--config-file',
                 str(path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            self.wait('launcher', lambda: (
                self.run_directory / 'view').exists())

    @property
    def cgroup(self):
        return f'/{self.run_directory.name}'

    @property
    def groups(self):
        root = next(line.split()[4] for line
                    in pathlib.Path('/proc/self/mountinfo').read_text()
                    .splitlines() if ' - cgroup2 ' in line)
        return pathlib.Path(root + self.cgroup)

    def kill_launcher(self, number=signal.SIGKILL):
        self.launcher.send_signal(number)
        self.launcher.wait()

    def _end(self):
        if self.launcher is not None:
            self.kill_launcher()
        if not self.groups.exists():
            return
        (self.groups / 'cgroup.kill').write_text('1')
        self.wait('end of HAProxy', self._remove_groups)

    def _remove_groups(self):
        for directory, _, _ in os.walk(self.groups, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        return not self.groups.exists()

    # The agent's part.

    def want(self, text, identity=FIRST, **more):
        """Write what is wanted; return its hash."""
        wanted = launch(text, **more)
        directory = self.run_directory / 'wanted' / identity
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in ((proxy_launch.CONFIGURATION, text),
                              (proxy_launch.LAUNCH, json.dumps(wanted))):
            (directory / f'.{name}').write_text(content)
            os.replace(directory / f'.{name}', directory / name)
        return wanted['configuration_hash']

    def state(self, identity=FIRST):
        path = self.run_directory / 'state' / f'{identity}.json'
        return json.loads(path.read_text()) if path.exists() else {}

    def wait_state(self, identity=FIRST, **expected):
        """Wait until the state has some values; return it."""
        def reached():
            state = self.state(identity)
            return expected.items() <= state.items() and state
        try:
            return self.wait(f'{expected} of {identity}', reached)
        except Exception:
            print(self.state(identity))
            raise

    def serve(self, text=None, **more):
        """Want something, and wait until it serves."""
        text = text or configuration()
        identity = more.get('identity', FIRST)
        return self.wait_state(identity, phase='running', error=None,
                               configuration_hash=self.want(text, **more))

    # The clients' part.

    def start_member(self):
        with namespaces.inside(self.lab, 'member'):
            server = _Server(('', 80), _Answers)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)

    def get(self, address=VIP, port=80):
        """Return status and X-Answer of an answer.

        :raises OSError: there is none.
        """
        with namespaces.inside(self.lab, 'client'):
            connection = socket.create_connection((address, port), 20)
        client = http.client.HTTPConnection(address, port)
        client.sock = connection
        with contextlib.closing(client):
            client.request('GET', '/')
            answer = client.getresponse()
            answer.read()
            return answer.status, answer.headers['X-Answer']

    def processes(self, identity=FIRST):
        """Return generation → pids of all that runs for a load balancer."""
        return {path.parent.name: set(map(int, path.read_text().split()))
                for path in (self.groups / identity).glob('*/cgroup.procs')
                if path.read_text()}


class Requests(threading.Thread):
    """Requests, each with a connection of its own, one after the other."""

    def __init__(self, case):
        super().__init__()
        self._case = case
        self._stopping = threading.Event()
        self.refused = []
        self.broken = []
        self.answers = []

    def run(self):
        while not self._stopping.is_set():
            try:
                self.answers.append(self._case.get())
            except ConnectionRefusedError as error:
                self.refused.append(error)
            except (OSError, http.client.HTTPException) as error:
                self.broken.append(error)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self.join()

    def wait_for(self, count):
        """Wait for so many more answers."""
        wanted = len(self.answers) + count
        self._case.wait('answers', lambda: len(self.answers) >= wanted)
