# SPDX-License-Identifier: Apache-2.0
"""The measured programs, and the targets that they probe."""

import contextlib
import ipaddress
import json
import resource
import subprocess

from bench.engine import alone

PORT = 8080
FIRST_TARGET = int(ipaddress.ip_address('127.1.0.0'))
# Seconds; longer than anything here takes.
PATIENCE = 180
# Part of the version of a checker that is no release build.
UNOPTIMIZED = 'debug assertions'

_HTTP = {'method': 'GET', 'path': '/', 'version': '1.0', 'host': None,
         'expected_codes': [[200, 200]]}


class Programs:
    """Starts the programs."""

    def __init__(self):
        self.folder = alone.CHECKOUT / 'build/bench/hc'
        self.checker = (alone.CHECKOUT
                        / 'hc-agent/target/release/octavia-xdp-hc')
        version = subprocess.run([self.checker, '--version'], check=True,
                                 capture_output=True, text=True).stdout
        if UNOPTIMIZED in version:
            raise ValueError(f'{self.checker} is built for tests; what is '
                             'measured comes from cargo build --release')

    @contextlib.contextmanager
    def server(self, kind, processes=1):
        """Run targets that answer, until the context ends."""
        words = [self.folder / 'server', kind, str(PORT), str(processes)]
        if kind == 'https':
            words = [self.folder / 'go-server', str(PORT)]
        child = subprocess.Popen(words, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        try:
            if child.stdout.readline() != 'ready\n':
                raise RuntimeError(f'the {kind} server does not start')
            yield
        finally:
            child.communicate(timeout=PATIENCE)

    def c(self, kind, count, window, tuned=False):
        """Run a burst of the C prober."""
        words = [self.folder / 'prober', kind, str(count), str(PORT),
                 str(window)]
        return _run(words + ['tuned'] * tuned)

    def go(self, kind, count, window):
        """Run a burst of the Go prober."""
        return _run([self.folder / 'go-prober', kind, str(count), str(PORT),
                     str(window)])

    def burst(self, path):
        """Run a burst of the health checker over a checks file."""
        return _run([self.checker, 'burst', '--checks', path])


def _processor_time():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _run(words):
    before = _processor_time()
    done = subprocess.run([str(word) for word in words], timeout=PATIENCE,
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f'{words[0]}: {done.stderr}')
    costs = json.loads(done.stdout)
    costs['cpu_s'] = costs['user_s'] + costs['system_s']
    # Includes start and end of the process, and reading a checks file.
    costs['process_cpu_s'] = _processor_time() - before
    return costs


def write_checks(path, kind, count, delay=5, timeout=None):
    """Write a checks file with a key and an address for each target."""
    checks = []
    for index in range(count):
        check = {
            'key': f'{index + 1:016x}', 'type': kind,
            'address': str(ipaddress.ip_address(FIRST_TARGET + index)),
            'port': PORT, 'delay': delay, 'timeout': timeout or delay,
            'rise': 2, 'fall': 3}
        if kind in ('http', 'https'):
            check['http'] = _HTTP
        if kind == 'https':
            check['tls'] = {'server_name': None}
        checks.append(check)
    temporary = path.with_name('.tmp-' + path.name)
    temporary.write_text(json.dumps({'version': 1, 'checks': checks}))
    temporary.rename(path)
