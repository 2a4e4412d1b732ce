# SPDX-License-Identifier: Apache-2.0
"""What CI runs: the test command of the README, then long kinds of tests.

Of these all that the change since BASE can break, and one more in turn: by the
number of commits, for a clean clone remembers nothing. A kind that would not
end in time is not begun; where one does not end in time that is a failure, and
all is stopped. A kind in turn, and a package index that does not answer, fail
nothing: the last lines name them.
"""

import dataclasses
import os
import signal
import subprocess
import sys
import time

from suite import changed
from suite import kinds
from suite import parts
from suite import reach

# All that is begun should be done by then, and is stopped then.
BEGIN_S, STOP_S = 70 * 60, 80 * 60
AGE_S = 4 * 3600
OK, FAILED, STOPPED, NO_PACKAGES = 'ok', 'FAILED', 'stopped', (
    'no package index answered')
# How long a run that is stopped may take to remove what it made.
CLEAN_UP_S = 90
# What failed in the last run of tools/test, and why.
FAILURES = reach.ROOT / 'build/logs/failures'


@dataclasses.dataclass
class Done:
    """A command that ran, and how it ended."""

    name: str
    result: str
    seconds: float
    counts: bool
    reason: str = ''

    @property
    def fails(self):
        return self.result == STOPPED or (
            self.counts and self.result == FAILED)


class Run:
    """Commands one after the other, within the time that CI has."""

    def __init__(self, begin=BEGIN_S, stop=STOP_S, clock=time.monotonic):
        self._begin, self._stop, self._clock = begin, stop, clock
        self._started = clock()
        self.done = []
        self.left = []

    def seconds(self):
        return self._clock() - self._started

    def fits(self, seconds):
        return self.seconds() + seconds <= self._begin

    def command(self, name, words, counts=True):
        """Run one, for the time that is left at most."""
        FAILURES.unlink(missing_ok=True)
        started = self.seconds()
        process = subprocess.Popen(words, cwd=reach.ROOT,
                                   start_new_session=True)
        try:
            status = process.wait(max(self._stop - started, 1))
            result = {0: OK, parts.UNAVAILABLE: NO_PACKAGES}.get(
                status, FAILED)
        except subprocess.TimeoutExpired:
            end(process)
            result = STOPPED
        reason = FAILURES.read_text() if FAILURES.exists() else ''
        self.done.append(Done(name, result, self.seconds() - started, counts,
                              reason))

    def kind(self, name, counts):
        """Run a long kind if it fits into the time that is left."""
        if self.fits(kinds.BY_NAME[name].seconds):
            self.command(name, ['tools/test', name], counts)
        else:
            self.left.append(name)

    @property
    def stopped(self):
        return any(done.result == STOPPED for done in self.done)


def end(process):
    """Interrupt a command, so that it removes what it made; then kill it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(CLEAN_UP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def git(*words):
    return subprocess.check_output(['git', *words], cwd=reach.ROOT,
                                   text=True).strip()


def usual_base():
    """The newest commit that is four hours older than HEAD, or the first."""
    made = int(git('log', '-1', '--format=%ct'))
    return (git('rev-list', '-1', f'--before={made - AGE_S}', 'HEAD')
            or git('rev-list', '--max-parents=0', 'HEAD').split()[-1])


def rotated(names, number):
    """The same names, beginning with another one for each number."""
    place = number % max(len(names), 1)
    return [*names[place:], *names[:place]]


def choose(breakable, number):
    """(kinds that the change can break, the others), in today's order.

    :param number: of commits.
    """
    others = [name for name in kinds.LONG_NAMES if name not in breakable]
    return rotated(list(breakable), number), rotated(others, number)


def run_all(run, breakable, others):
    """The test command, then the long kinds."""
    run.command('make test', ['make', 'test'])
    for name in breakable:
        if run.stopped:
            run.left.append(name)
        else:
            run.kind(name, counts=True)
    in_turn = next((name for name in others
                    if run.fits(kinds.BY_NAME[name].seconds)), None)
    if in_turn and not run.stopped:
        run.kind(in_turn, counts=False)


def report(run, base):
    """Print what ran and what did not; whether the run passed."""
    print(f'=== CI, for what has changed since {base[:12]}')
    for done in run.done:
        turn = '' if done.counts else ', in turn: mend it first'
        print(f'{done.name}: {done.result} ({done.seconds:.0f} s'
              f'{turn if done.result != OK else ""})')
        if done.reason:
            print(done.reason)
    for name in run.left:
        print(f'{name}: the change can break it, but it was not begun: it '
              f'takes {kinds.BY_NAME[name].seconds} s')
    failed = [done.name for done in run.done if done.fails]
    print(f'{run.seconds():.0f} s; '
          + (f'failed: {", ".join(failed)}' if failed else 'passed'),
          flush=True)
    return not failed


def main(arguments):
    base = arguments[0] if arguments else (
        os.environ.get('CI_BASE') or usual_base())
    base = changed.base_of(base)
    files, gone = reach.changed_since(base)
    selection = changed.select(reach.Tree(), files, gone)
    breakable, others = choose(selection.kinds,
                               int(git('rev-list', '--count', 'HEAD')))
    print(f'since {base[:12]} {len(files) + len(gone)} files have changed, '
          f'which can break: {", ".join(breakable) or "no long kind"}',
          flush=True)
    run = Run()
    run_all(run, breakable, others)
    return 0 if report(run, base) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
