# SPDX-License-Identifier: Apache-2.0
"""The clock of one process jumps, and jumps back.

Namespaces do not divide the time of day, so that a host of a lab has no clock
of its own. libfaketime, loaded before the process, reads from a file how far
its time of day is off; its monotonic clock stays as it is, as when somebody
sets a host's clock.
"""

import pathlib
import subprocess

from lab import processes

# Debian's libfaketime, for programs with threads.
_LIBRARY = '*/faketime/libfaketimeMT.so.1'
JUMP_S = 3600
# What it does to sleeps is undone by this.
_SLEEP = pathlib.Path(__file__).with_name('sleep.c')


def library():
    """The path of libfaketime, or None."""
    return next(iter(sorted(pathlib.Path('/usr/lib').glob(_LIBRARY))), None)


def environment(file):
    """What a process needs in its environment so that `file` sets its clock.

    :raises CalledProcessError: the C compiler failed.
    """
    built = file.with_name(f'{file.name}-sleep.so')
    subprocess.run(['cc', '-shared', '-fPIC', '-D_GNU_SOURCE', '-o', built,
                    _SLEEP], check=True)
    return {'LD_PRELOAD': f'{built} {library()}', 'FAKETIME_NO_CACHE': '1',
            'DONT_FAKE_MONOTONIC': '1', 'FAKETIME_TIMESTAMP_FILE': str(file)}


class Clock:
    """The clock of a process of a lab, which is started again for it."""

    def __init__(self, lab, process):
        self._lab = lab
        self._process = process
        self._file = lab.run_directory / f'clock-{process}'

    def take(self):
        """Start the process so that its clock can be set."""
        self.set(0)
        self._restart(environment(self._file))

    def set(self, seconds):
        """:param seconds: by which the clock is fast."""
        new = pathlib.Path(f'{self._file}.new')
        new.write_text(f'{seconds:+d}\n')
        new.rename(self._file)

    def give_back(self):
        """Start the process as it was."""
        self._restart(None)
        self._file.unlink()

    def _restart(self, more):
        old = processes.find(self._lab, self._process)
        environment = {name: value for name, value in old.env.items()
                       if not name.startswith(('LD_PRELOAD', 'FAKETIME',
                                               'DONT_FAKE'))}
        processes.stop(self._lab, self._process)
        processes.start(self._lab, old.host, self._process, old.argv,
                        {**environment, **(more or {})}, old.cwd)
