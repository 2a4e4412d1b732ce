# SPDX-License-Identifier: Apache-2.0
"""Runs the command of shared machines, and kills it in the middle (SIGKILL).

    python -m …killed N WORD…

It dies right before its step N: an SQL statement, the end of a transaction,
the start of a program, a file that is opened for writing, replaced or removed
below the folder of --folder. If it has fewer steps, it ends as it would.
"""

import os
import signal
import sys

import sqlalchemy
from sqlalchemy import event

from testbed import __main__ as command

_REMOVED_OR_REPLACED = ('os.rename', 'os.remove', 'os.rmdir', 'os.mkdir',
                        'shutil.rmtree', 'shutil.copyfile', 'os.kill')


class _Countdown:
    def __init__(self, steps, folder):
        self.left, self.folder = steps, folder

    def step(self, *_arguments):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, name, arguments):
        writes = name in _REMOVED_OR_REPLACED or (
            name == 'open' and arguments[1] not in (None, 'r', 'rb'))
        if name == 'subprocess.Popen' or (
                writes and self.folder in str(arguments[0])):
            self.step()


def main(words):
    folder = next(word.removeprefix('--folder=') for word in words
                  if word.startswith('--folder='))
    count = _Countdown(int(words[0]), folder)
    for name in 'before_cursor_execute', 'commit':
        event.listen(sqlalchemy.Engine, name, count.step)
    sys.addaudithook(count.audit)
    return command.main(words[1:])


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
