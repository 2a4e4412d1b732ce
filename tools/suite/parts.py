# SPDX-License-Identifier: Apache-2.0
"""Runs the parts of the tests side by side, and shows how far they are.

For tools/test, with nothing but Python's own library.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import time

# Its tests in their long form, and the health checker as it is installed.
LONG = {'OCTAVIA_XDP_TESTS': 'long', 'OCTAVIA_XDP_HC': str(
    pathlib.Path(__file__).resolve().parents[2]
    / 'hc-agent/target/release/octavia-xdp-hc')}
# What tools/setup exits with if a package index does not answer, and so does a
# part that cannot go on then (EX_UNAVAILABLE of sysexits.h).
UNAVAILABLE = 69
PROGRESS_S = 10
POLL_S = 0.2
# How long a part that is interrupted may take to remove what it made.
CLEAN_UP_S = 60
SHOWN_LINES = 200
# What the last lines of a run say of a failure.
REASON_LINES, REASON_WIDTH = 15, 400
# As stestr, cargo and cmocka name a test that failed, or whose process died.
FAILED_TEST = re.compile(
    r'^(?:\{\d+\} (\S+) \[.*\.\.\. (?:FAILED|inprogress)$'
    r"|thread '(\S+)' .*panicked at"
    r'|\[  FAILED  \] ([a-z]\w+)$)', re.MULTILINE)
OF_C = 3  # its group
NEXT_TEST = re.compile(
    r'^(?:\{\d+\} \S+ \[|=+$|note: |stack backtrace:|failures:$)',
    re.MULTILINE)


def last_lines(text):
    """Lines with something on them, none longer than a terminal bears."""
    lines = [line[:REASON_WIDTH] for line in text.splitlines()
             if line.strip()]
    return lines[-REASON_LINES:]


@dataclasses.dataclass(frozen=True)
class Part:
    """A command of its own.

    :param kind: of tests; None for what only prepares.
    :param lane: where one part runs at a time, in the order of their list.
    :param needs: names of parts that have to succeed before.
    :param nice: added to its niceness.
    :param long: whether its tests run in their long form.
    """

    name: str
    kind: str | None
    lane: str
    needs: tuple[str, ...] = ()
    nice: int = 0
    long: bool = False


@dataclasses.dataclass
class Run:
    """A part that was started, and how it ended."""

    part: Part
    process: subprocess.Popen
    started: float
    log: pathlib.Path | None
    ok: bool | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def look(self):
        """Note the end, if it has come."""
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if not pid:
            return False
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.ok = self.process.returncode == 0
        self.seconds = time.monotonic() - self.started
        self.cpu_seconds = used.ru_utime + used.ru_stime
        return True

    def result(self):
        return (f'{"ok" if self.ok else "FAILED"} ({self.seconds:.0f} s, '
                f'{self.cpu_seconds:.0f} s of processor time)')

    def failures(self):
        """Name → lines that say why, of each test that its log calls failed.

        Those of Python and Rust name a test first, those of C its error.
        """
        text = self.log.read_text(errors='replace') if self.log else ''
        failures = {}
        for match in FAILED_TEST.finditer(text):
            shown = (text[:match.end()] if match.lastindex == OF_C
                     else NEXT_TEST.split(text[match.end():], maxsplit=1)[0])
            failures.setdefault(match[match.lastindex], last_lines(shown))
        return failures

    def last_lines(self):
        """Of its log: why it failed, if no test did."""
        return last_lines(self.log.read_text(errors='replace')
                          if self.log else '')

    def last_line(self):
        lines = self.log.read_text(errors='replace').split('\n')
        return next((line for line in reversed(lines) if line.strip()), '')


class Schedule:
    """Starts each part as soon as its lane is free and what it needs done.

    :param command: part → the arguments of its command.
    :param logs: directory of the logs; None if parts write to the terminal.
    """

    def __init__(self, parts, command, logs):
        self._waiting = list(parts)
        self._command = command
        self._logs = logs
        self._begin = time.monotonic()
        self._running = []
        self.runs = []
        self.not_run = []

    def seconds(self):
        """Since it was made."""
        return time.monotonic() - self._begin

    def say(self, text):
        print(f'[{self.seconds():4.0f}s] {text}', flush=True)

    def lacked_packages(self):
        """Whether parts failed, and only for want of a package index."""
        failed = [run for run in self.runs if not run.ok]
        return bool(failed) and all(
            run.process.returncode == UNAVAILABLE for run in failed)

    def run(self):
        """Run all parts, also after a failure of one."""
        shown = time.monotonic()
        try:
            while self._waiting or self._running:
                self._start()
                time.sleep(POLL_S)
                self._collect()
                if self._logs and time.monotonic() - shown > PROGRESS_S:
                    shown = time.monotonic()
                    self._show_progress()
        finally:
            self._stop()

    def _start(self):
        for part in list(self._waiting):
            ok = {run.part.name: run.ok for run in self.runs}
            ok.update((missed.name, False) for missed in self.not_run)
            if any(ok.get(name) is False for name in part.needs):
                self._waiting.remove(part)
                self.not_run.append(part)
                self.say(f'{part.name}: not run, for it needs '
                         f'{" and ".join(part.needs)}')
            elif (not any(run.part.lane == part.lane
                          for run in self._running)
                  and self._is_first(part)
                  and all(ok.get(name) for name in part.needs)):
                self._waiting.remove(part)
                self._launch(part)

    def _is_first(self, part):
        return part is next(other for other in self._waiting
                            if other.lane == part.lane)

    def _launch(self, part):
        log = self._logs and self._logs / f'test-{part.name}.log'
        with (open(log, 'w') if log else contextlib.nullcontext()) as output:
            process = subprocess.Popen(
                ['nice', '-n', str(part.nice), *self._command(part)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, **(LONG if part.long else {})},
                start_new_session=True)
        run = Run(part, process, time.monotonic(), log)
        self._running.append(run)
        self.runs.append(run)
        self.say(f'{part.name} …')

    def _collect(self):
        for run in list(self._running):
            if run.look():
                self._running.remove(run)
                if not run.ok and run.log:
                    show_end(run.log)
                self.say(f'{run.part.name}: {run.result()}')

    def _show_progress(self):
        for run in self._running:
            seconds = time.monotonic() - run.started
            self.say(f'  {run.part.name} ({seconds:.0f} s): '
                     f'{run.last_line()[:50]}')

    def _stop(self):
        """End what still runs; each removes what it made."""
        for run in self._running:
            self._signal(run, signal.SIGTERM)
        end = time.monotonic() + CLEAN_UP_S
        while self._running and time.monotonic() < end:
            self._running = [run for run in self._running if not run.look()]
            time.sleep(POLL_S)
        for run in self._running:
            self._signal(run, signal.SIGKILL)

    def _signal(self, run, number):
        os.killpg(run.process.pid, number)


def show_end(log):
    """Print the end of a log, where the failure is."""
    lines = log.read_text(errors='replace').splitlines()
    left_out = max(len(lines) - SHOWN_LINES, 0)
    print(f'--- {log}' + (f', without its first {left_out} lines'
                          if left_out else ''))
    print('\n'.join(lines[left_out:]))
    print(f'--- end of {log}', flush=True)
