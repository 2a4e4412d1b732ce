# SPDX-License-Identifier: Apache-2.0
"""Run the two commands of README.rst on a machine without any preparation.

    python -m lab.newcomer --release trixie
    python -m lab.newcomer --release bookworm --command demo
    python -m lab.newcomer --release trixie -- tools/test unit

It needs root and mmdebstrap. A minimal Debian with git, make, python3 and
certificates gets a clone of the committed files. The steps and their duration
are recorded in build/newcomer/RELEASE.json, with their output in the same
directory. The exit status is 0 only if every step succeeded.
"""

import argparse
import os
import shutil
import signal
import sys

from lab import demo_steps
from lab import paths
from lab.newcomer import root
from lab.packages import commands

RELEASES = ('bookworm', 'trixie')
COMMANDS = ('demo', 'test')
# Below a directory that only root can enter, like /root of a new machine.
PLACE = '/root/src'


class Newcomer:
    """Steps, in order; each returns a line of detail."""

    def __init__(self, options):
        self._place = options.place
        self._words = options.words
        self._commands = options.command or COMMANDS
        self._root = root.Root(options.release)
        self.report = root.FOLDER / f'{options.release}.json'
        self._logs = root.FOLDER / f'{options.release}-logs'
        shutil.rmtree(self._logs, ignore_errors=True)
        self._logs.mkdir()

    def steps(self):
        """Yield names and functions."""
        yield 'make a minimal root', self._root.make
        yield 'clone committed files', self._clone
        if self._words:
            yield ' '.join(self._words), lambda: self._run(
                'command', *self._words)
            return
        for command in self._commands:
            yield (f'make {command}',
                   lambda command=command: self._run(command, 'make', command))

    def _clone(self):
        clone = self._root.path / self._place.lstrip('/')
        commands.run('git', 'clone', '--quiet', '--no-local', paths.CHECKOUT,
                     clone)
        changed = commands.run('git', 'status', '--porcelain',
                               cwd=paths.CHECKOUT)
        return (f'{commands.run("git", "describe", "--always", cwd=clone)}'
                f'{", without uncommitted changes" * bool(changed)}'
                ).replace('\n', '')

    def _run(self, name, *words):
        log = self._logs / f'{name}.log'
        try:
            return self._root.run(self._place, log, *words, show=True)
        finally:
            logs = self._root.path / self._place.lstrip('/') / 'build/logs'
            if logs.is_dir():
                shutil.copytree(logs, self._logs / name)

    def end(self):
        """Remove the root."""
        self._root.end()


def _options():
    arguments = sys.argv[1:]
    words = []
    if '--' in arguments:
        place = arguments.index('--')
        arguments, words = arguments[:place], arguments[place + 1:]
    parser = argparse.ArgumentParser(
        prog='python -m lab.newcomer', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--release', choices=RELEASES, required=True)
    parser.add_argument('--command', choices=COMMANDS, action='append',
                        help='make target; may be repeated (default: both)')
    parser.add_argument('--place', default=PLACE,
                        help='directory of the clone in the root; %(default)s')
    options = parser.parse_args(arguments)
    options.words = words
    return options


def main():
    """Run all steps; return 1 at the first failure."""
    options = _options()
    if os.geteuid() != 0:
        print('lab.newcomer: needs root', file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    newcomer = Newcomer(options)
    try:
        return demo_steps.run_all(newcomer.report, dict(newcomer.steps()))
    finally:
        newcomer.end()


if __name__ == '__main__':
    sys.exit(main())
