# SPDX-License-Identifier: Apache-2.0
"""The programs that are measured, and the targets that they probe."""

import contextlib
import ipaddress
import json
import resource
import subprocess

from bench.engine import alone

PORT = 8080
FIRST_TARGET = int(ipaddress.ip_address('127.1.0.0'))
# Longer than anything here takes.
PATIENCE = 180
# What a checker that is no release build says in its version.
UNOPTIMIZED = 'debug assertions'

_HTTP = {'method': 'GET', 'path': '/', 'version': '1.0', 'host': None,
         'expected_codes': [[200, 200]]}


class Programs:
    """Where they are, and how they are started."""

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
        """Targets that answer, for the time of a block."""
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
        """One burst of the C prober."""
        words = [self.folder / 'prober', kind, str(count), str(PORT),
                 str(window)]
        return _run(words + ['tuned'] * tuned)

    def go(self, kind, count, window):
        """One burst of the Go prober."""
        return _run([self.folder / 'go-prober', kind, str(count), str(PORT),
                     str(window)])

    def burst(self, path):
        """One burst of the health checker over a checks file."""
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
    found = json.loads(done.stdout)
    found['cpu_s'] = found['user_s'] + found['system_s']
    # With start and end of the process, and the reading of a checks file.
    found['process_cpu_s'] = _processor_time() - before
    return found


def write_checks(path, kind, count, delay=5, timeout=None):
    """A checks file over so many targets, a key and an address each."""
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
