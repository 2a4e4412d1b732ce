# SPDX-License-Identifier: Apache-2.0
"""Controls the client with its connections (client.py)."""

import json
import subprocess
import sys

from lab import paths
from lab.fabric import client


class Connections:
    """A context manager that runs the client.

    :param per_second: requests a second, of all connections together.
    """

    def __init__(self, lab, address, port, per_second):
        self._words = [
            'nsenter', f'--net=/run/netns/{lab.namespace(client.CLIENT)}',
            '--', sys.executable, '-m', 'bench.hitless.client', address,
            str(port), str(per_second)]

    def __enter__(self):
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=paths.CHECKOUT)
        self._answer()
        return self

    def __exit__(self, *_exception):
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError('the client has ended, with '
                               f'{self._process.wait()}')
        return json.loads(line)

    def _ask(self, **command):
        self._process.stdin.write(json.dumps(command) + '\n')
        self._process.stdin.flush()
        return self._answer()

    def open(self, count):
        """Open connections; return which are open and why others failed."""
        return self._ask(open=count)

    def round(self):
        """Wait for an answer on each; return the broken ones."""
        return self._ask(round=True)

    def rest(self):
        """Send nothing until the next round."""
        self._ask(rest=True)

    def close(self, member=None):
        """Close those of a member, or all."""
        return self._ask(close=member)

    def close_ports(self, ports):
        """Close those with these ports of the client."""
        return self._ask(close_ports=sorted(ports))
