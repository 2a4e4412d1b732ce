# SPDX-License-Identifier: Apache-2.0
"""Run the commands of README's demonstrations in a clone only root can enter.

    python -m lab.demos [--list] [NAME …]

The clone has committed files only. It lies below a directory that other users
cannot enter, like root's home on Debian. Each command's output goes to
build/logs/demos-NAME.log, and its duration to build/demos.json. The exit
status is 0 only if all commands succeeded and left nothing behind.
"""

import argparse
import contextlib
import filecmp
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lab import paths
from lab import progress

REPORT = paths.BUILD / 'demos.json'
LOGS = paths.BUILD / 'logs'
# /tmp may be in memory. mkdtemp() creates a new directory below it.
PLACE = '/var/tmp'  # noqa: S108
# No virtual environments: their programs contain their absolute paths. uv's
# in build/bootstrap is an exception, a single binary.
SHARED = ('datapath/build', 'hc-agent/target/debug', 'build/bin',
          'build/bootstrap', 'build/ovn', 'build/lab-template')
TAIL = 60  # lines
END_S = 120
_DOWN = ('make', 'demo-down')
# By name, in the order in which they run.
COMMANDS = {
    'servers': (('make', 'demo'),),
    'vms': (('make', 'demo', 'MEMBERS=vms'),),
    'l7': (('make', 'demo', 'L7=1'),),
    'horizon': (('make', 'demo', 'HORIZON=1'),),
    'keep': (('make', 'demo', 'KEEP=1'),
             ('build/venv/bin/python', '-m', 'lab', 'status'), _DOWN),
}
# Prints that the lab is down, and fails, if nothing of it is left.
_IS_DOWN = ('build/venv/bin/python', '-m', 'lab', 'status')


class Failed(Exception):
    """A command of README failed; the text says why."""


@contextlib.contextmanager
def clone():
    """Clone the committed files below a directory of mode 0700.

    Copy this checkout's build results; make, cargo and the lab rebuild those
    whose sources differ.

    :raises Failed: the clone failed.
    """
    place = pathlib.Path(tempfile.mkdtemp(prefix='octavia-xdp-demos-',
                                          dir=PLACE))
    try:
        where = place / 'clone'
        done = subprocess.run(
            ['git', 'clone', '--quiet', '--no-hardlinks', paths.CHECKOUT,
             where], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f'git clone: {done.stderr.strip()}')
        _share(where)
        yield where
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _share(where):
    for name in SHARED:
        source, target = paths.CHECKOUT / name, where / name
        if source.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(['cp', '--archive', '--reflink=auto', source,
                            target], check=True)
    # make and cargo compare times: copy those of files with equal content.
    listed = subprocess.run(['git', 'ls-files', '-z'], cwd=where, check=True,
                            capture_output=True, text=True).stdout
    for name in filter(None, listed.split('\0')):
        source, target = paths.CHECKOUT / name, where / name
        if (source.is_file() and target.is_file()
                and filecmp.cmp(source, target, shallow=False)):
            shutil.copystat(source, target)


def run(where, argv, log):
    """Run a command in the clone and append its output to a log.

    :returns: its duration in seconds.
    :raises Failed: it failed.
    """
    started = time.monotonic()
    with open(log, 'ab') as output:
        child = subprocess.Popen(
            argv, cwd=where, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True)
    try:
        status = child.wait()
    except BaseException:
        # SIGTERM lets it clean up.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
        raise
    if status:
        lines = log.read_text(errors='replace').splitlines()[-TAIL:]
        raise Failed('\n'.join([f'{" ".join(argv)}: exit status {status}; '
                                f'the end of {log}:', *lines]))
    return time.monotonic() - started


def demonstrate(where, name, notes):
    """Run the commands of one demonstration, and check that nothing is left.

    :raises Failed: a command failed, or the lab is still up.
    """
    log = LOGS / f'demos-{name}.log'
    log.unlink(missing_ok=True)
    for argv in COMMANDS[name]:
        note = {'command': ' '.join(argv), 'ok': False, 'seconds': 0.0}
        notes.append(note)
        with progress.step(note['command']):
            note['seconds'] = round(run(where, argv, log), 1)
        note['ok'] = True
    status = subprocess.run(_IS_DOWN, cwd=where, capture_output=True,
                            text=True)
    if 'is down' not in status.stdout:
        raise Failed(
            f'{name} left its lab up:\n{status.stdout}{status.stderr}')


def main():
    parser = argparse.ArgumentParser(
        prog='python -m lab.demos', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--list', action='store_true',
                        help='print the names and their commands')
    parser.add_argument('names', nargs='*', metavar='NAME',
                        choices=[*COMMANDS, []],
                        help=f'{", ".join(COMMANDS)} (default: all)')
    arguments = parser.parse_args()
    if arguments.list:
        for name, commands in COMMANDS.items():
            print(f'{name:8} {"; ".join(" ".join(argv) for argv in commands)}')
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    LOGS.mkdir(parents=True, exist_ok=True)
    notes = []
    try:
        with clone() as where:
            try:
                for name in arguments.names or COMMANDS:
                    demonstrate(where, name, notes)
            finally:
                # A killed command may have left its lab up.
                subprocess.run(_DOWN, cwd=where, capture_output=True)
    except Failed as error:
        print(f'\nFAILED: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
        return 1
    finally:
        REPORT.write_text(json.dumps({'commands': notes}, indent=2) + '\n')
    print(f'\nAll succeeded. Report: {REPORT.relative_to(paths.CHECKOUT)}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
