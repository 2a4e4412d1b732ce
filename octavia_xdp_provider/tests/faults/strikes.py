# SPDX-License-Identifier: Apache-2.0
"""What befalls a process: it is killed, stands still, or is cut off."""

import contextlib
import pathlib
import signal
import threading

from lab import processes
from octavia_xdp_provider.tests.faults import victims

TABLE = 'octavia_xdp_faults'
# Seconds between two looks at the connections of a process.
_LOOK_S = 0.2
_LISTENS = '0A'

# Name → seconds for which it lasts.
STRIKES = {'kill': 0, 'pause': 20, 'cut 10 s': 10, 'cut 3 min': 180}


def possible(victim, strike):
    return not (victim.alone and strike.startswith('cut'))


class Strike:
    """A ``with`` block: at its end the process is there again."""

    def __init__(self, lab, victim, strike):
        self._lab = lab
        self._victim = victim
        self._strike = strike
        self._ended = threading.Event()
        self._controllers = victims.count_controllers(lab)

    def __enter__(self):
        if self._strike == 'kill':
            victims.kill(self._lab, self._victim)
        elif self._strike == 'pause':
            self._paused = victims.pids(self._lab, self._victim)
            victims.send(self._paused, signal.SIGSTOP)
        else:
            self._numbers = victims.pids(self._lab, self._victim)
            self._cut()
            self._thread = threading.Thread(target=self._follow)
            self._thread.start()
        return self

    def __exit__(self, *_exception):
        self._ended.set()
        if self._strike == 'kill':
            victims.revive(self._lab, self._victim, self._controllers)
        elif self._strike == 'pause':
            victims.send(self._paused, signal.SIGCONT)
        else:
            self._thread.join()
            self._nft('')

    def _follow(self):
        """Of connections that are made meanwhile."""
        while not self._ended.wait(_LOOK_S):
            if not self._victim.ports:
                self._cut()

    def _cut(self):
        ports, pairs = set(self._victim.ports), set()
        if not ports:
            ports, pairs = _connections(self._numbers)
        rules = [f'tcp {end} {{ {", ".join(map(str, sorted(ports)))} }} drop'
                 for end in ('sport', 'dport') if ports]
        if pairs:
            both = {*pairs, *((there, here) for here, there in pairs)}
            rules.append('tcp sport . tcp dport {{ {} }} drop'.format(
                ', '.join(f'{here} . {there}'
                          for here, there in sorted(both))))
        self._nft(f'table inet {TABLE} {{ chain out {{ type filter hook '
                  'output priority 0; policy accept;\n'
                  + '\n'.join(rules) + '\n}\n}\n')

    def _nft(self, table):
        processes.run(
            self._lab, self._victim.host, ['nft', '-f', '-'],
            input=f'table inet {TABLE}\ndelete table inet {TABLE}\n{table}')


def _connections(numbers):
    """TCP ports that processes listen on, and (own, other) of connections."""
    listening, pairs = set(), set()
    for pid in numbers:
        inodes = set()
        with contextlib.suppress(OSError):
            for entry in pathlib.Path(f'/proc/{pid}/fd').iterdir():
                with contextlib.suppress(OSError):
                    name = str(entry.readlink())
                    if name.startswith('socket:['):
                        inodes.add(name[8:-1])
        for kind in 'tcp', 'tcp6':
            with contextlib.suppress(OSError):
                table = pathlib.Path(f'/proc/{pid}/net/{kind}').read_text()
                for line in table.splitlines()[1:]:
                    fields = line.split()
                    here, there = (int(text.rpartition(':')[2], 16)
                                   for text in fields[1:3])
                    if fields[9] not in inodes:
                        continue
                    if fields[3] == _LISTENS:
                        listening.add(here)
                    else:
                        pairs.add((here, there))
    return listening, pairs
