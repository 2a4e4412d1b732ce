# SPDX-License-Identifier: Apache-2.0
"""FRR's daemons on a host of a lab, configured as an operator does it."""

import json
import pathlib
import shutil
import subprocess

from lab import processes

DAEMONS = pathlib.Path('/usr/lib/frr')
GUIDE = (pathlib.Path(__file__).parents[4]
         / 'doc/source/install/installation.rst')


def example(title):
    """The literal block of the installation guide that follows a line."""
    text = GUIDE.read_text()
    block = text[text.index(f'\n{title}::\n') + len(title) + 4:]
    lines = []
    for line in block.split('\n'):
        if line and not line.startswith('   '):
            break
        lines.append(line[3:])
    return '\n'.join(lines).strip() + '\n'


def _bfdd_has_a_socket():
    """Return whether bfdd has a socket for other programs, as before FRR 10.
    """
    return '--bfdctl' in subprocess.run(
        [DAEMONS / 'bfdd', '--help'], capture_output=True, text=True).stdout


class Frr:
    """Daemons of one host; zebra first.

    :param directory: for sockets and files, which is there. It becomes that
        of Debian's user of FRR.
    """

    def __init__(self, lab, host, directory, *daemons):
        self._lab = lab
        self._host = host
        self._directory = directory
        self.daemons = ('zebra', *daemons)
        shutil.chown(directory, 'frr', 'frr')
        for daemon in self.daemons:
            self._start(daemon)

    def _start(self, daemon):
        socket = self._directory / f'{daemon}.vty'
        processes.start(
            self._lab, self._host, self.name(daemon), [
                DAEMONS / daemon, '--config_file', '/dev/null',
                '--log', 'stdout',
                '--pid_file', self._directory / f'{daemon}.pid',
                '--socket', self._directory / 'zserv',
                '--vty_port', '0', '--vty_socket', self._directory,
                *(['--bfdctl', self._directory / 'bfdd.sock']
                  if daemon == 'bfdd' and _bfdd_has_a_socket() else [])],
            ready=socket.exists)

    def name(self, daemon):
        """The name under which the lab knows a daemon."""
        return f'{self._host}-{daemon}'

    def configure(self, text):
        """:raises LabError: a line is not one of FRR."""
        file = self._directory / 'new.conf'
        file.write_text(text)
        self._vtysh('-f', file)

    def show(self, *words):
        """Return FRR's JSON output, or None while it does not answer."""
        done = self._vtysh('-c', ' '.join(('show', *words, 'json')),
                           check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return None

    def _vtysh(self, *words, check=True):
        return processes.run(self._lab, self._host, [
            'vtysh', '--vty_socket', self._directory, *words], check=check)
