# SPDX-License-Identifier: Apache-2.0
"""Supervisors with real children, which are killed."""

import json
import multiprocessing
import os
import pathlib
import select
import signal
import sys
import threading
import time
from unittest import mock

import fixtures
from oslotest import base

from octavia_xdp_provider.process import supervisor

FAST = supervisor.Backoff(first_s=0.01, max_s=0.02)
# Far above what anything here takes.
LIMIT_S = 20


class SupervisorTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.reader, self.writer = os.pipe()
        self.addCleanup(os.close, self.reader)

    def close_writer(self):
        """From now on the pipe is held by supervisor and children only."""
        os.close(self.writer)

    def read(self):
        """Return what a process wrote to the pipe; b'' at its end."""
        ready, _, _ = select.select([self.reader], [], [], LIMIT_S)
        self.assertTrue(ready, 'nothing was written')
        return os.read(self.reader, 65536)

    def read_pid(self):
        return int(self.read())

    def write_pid(self):
        os.write(self.writer, b'%d\n' % os.getpid())

    def started(self):
        """Counts a start; returns how many were before."""
        number = len(list(self.directory.iterdir()))
        (self.directory / str(number)).touch()
        return number

    def starts(self):
        return len(list(self.directory.iterdir()))

    def fork_supervisor(self, **arguments):
        """Run a supervisor in a process of its own; returns its id."""
        pid = os.fork()
        if not pid:
            try:
                supervisor.Supervisor('child', backoff=FAST, **arguments).run()
            finally:
                os._exit(0)
        self.close_writer()
        self.addCleanup(self._reap, pid)
        return pid

    @staticmethod
    def _reap(pid):
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


class TestRestarts(SupervisorTestCase):

    def setUp(self):
        super().setUp()
        self.addCleanup(self.close_writer)

    def delays(self, work, backoff, **arguments):
        """The seconds for which a supervisor slept between its children."""
        with mock.patch('time.sleep') as sleep:
            supervisor.Supervisor('child', work, backoff=backoff,
                                  **arguments).run()
        return [call.args[0] for call in sleep.call_args_list]

    def test_ends_when_the_child_succeeds(self):
        self.assertEqual([], self.delays(self.started, FAST))
        self.assertEqual(1, self.starts())

    def test_starts_again_after_kill_failure_and_exception(self):
        def work():
            number = self.started()
            if number == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if number == 1:
                os._exit(3)
            if number == 2:
                raise ValueError('shown on standard error')
            if number == 3:
                sys.exit(0)  # not by returning

        self.assertEqual(
            [0.1, 0.2, 0.3, 0.3],
            self.delays(work, supervisor.Backoff(first_s=0.1, max_s=0.3)))
        self.assertEqual(5, self.starts())

    def test_delay_begins_anew_after_a_child_that_was_stable(self):
        def work():
            if self.started() < 3:
                os._exit(1)

        self.assertEqual([0.1, 0.1, 0.1], self.delays(
            work, supervisor.Backoff(0.1, 10.0, stable_after_s=-1.0)))

    def test_failed_fork_is_tried_again(self):
        with mock.patch('os.fork', _failing_first(os.fork, 2)):
            self.assertEqual([0.01, 0.02], self.delays(self.started, FAST))
        self.assertEqual(1, self.starts())

    def test_restarts_after_success_until_it_is_stopped(self):
        stop = threading.Event()

        def until_third(_seconds):
            if self.starts() == 3:
                stop.set()

        with mock.patch.object(stop, 'wait', side_effect=until_third):
            self.delays(self.started, FAST, restart_after_success=True,
                        stop=stop)
        self.assertEqual(3, self.starts())

    def test_nothing_is_started_once_it_is_stopped(self):
        stop = threading.Event()
        stop.set()

        self.delays(self.started, FAST, stop=stop)

        self.assertEqual(0, self.starts())


def _failing_first(fork, times):
    """os.fork that fails so many times first."""
    failures = iter([OSError(11, 'no more processes')] * times)

    def failing():
        for failure in failures:
            raise failure
        return fork()
    return failing


class TestStop(SupervisorTestCase):

    def stopped(self, ignore_terminate=False, **arguments):
        """Status of a child that runs while its supervisor is stopped."""
        stop = threading.Event()

        def work():
            if ignore_terminate:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.write_pid()
            time.sleep(LIMIT_S)

        ends = []
        with mock.patch.object(
                supervisor, '_wait', side_effect=_recorded(ends)):
            thread = threading.Thread(target=supervisor.Supervisor(
                'child', work, backoff=FAST, stop=stop, **arguments).run)
            thread.start()
            child = self.read_pid()
            stop.set()
            thread.join(LIMIT_S)
        self.close_writer()
        self.assertFalse(thread.is_alive())
        self.assertRaises(ProcessLookupError, os.kill, child, 0)
        return ends[-1]

    def test_child_of_a_stopped_supervisor_is_terminated(self):
        self.assertEqual(-signal.SIGTERM, self.stopped())

    def test_child_that_does_not_end_is_killed(self):
        self.assertEqual(-signal.SIGKILL, self.stopped(
            ignore_terminate=True, stop_timeout_s=0.1))


def _recorded(results):
    wait = supervisor._wait

    def side_effect(child, flags):
        results.append(wait(child, flags))
        return results[-1]
    return side_effect


class TestDeaths(SupervisorTestCase):

    def test_child_dies_with_its_supervisor(self):
        def work():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.write_pid()
            time.sleep(LIMIT_S)

        parent = self.fork_supervisor(work=work)
        self.read_pid()

        os.kill(parent, signal.SIGKILL)

        self.assertEqual(b'', self.read())

    def test_child_of_a_dead_supervisor_does_no_work(self):
        self.addCleanup(self.close_writer)
        work = mock.Mock()
        orphan = supervisor.Supervisor('child', work, backoff=FAST)

        with mock.patch.object(supervisor, '_LIBC'):
            self.assertEqual(1, orphan._in_child(os.getpid()))

        work.assert_not_called()

    def test_pipe_stays_open_between_killed_children(self):
        def work():
            self.write_pid()
            time.sleep(LIMIT_S)

        self.fork_supervisor(work=work)
        children = set()
        for _attempt in range(4):
            child = self.read_pid()  # no end of file in between
            children.add(child)
            os.kill(child, signal.SIGKILL)

        self.assertEqual(4, len(children))


class TestCommand(SupervisorTestCase):

    def run_python(self, text, **arguments):
        supervisor.Supervisor(
            'python', supervisor.command([sys.executable, '-c', text]),
            backoff=FAST, **arguments).run()
        self.close_writer()

    def test_program_gets_no_other_files_of_its_parent(self):
        os.set_inheritable(self.writer, True)
        result = self.directory / 'found'

        self.run_python(
            'import json, os\n'
            f'with open({str(result)!r}, "w") as file:\n'
            '    json.dump([os.path.realpath(f"/proc/self/fd/{name}")\n'
            '               for name in os.listdir("/proc/self/fd")], file)')

        pipe = os.readlink(f'/proc/self/fd/{self.reader}')
        self.assertNotIn(pipe, [
            name.rpartition('/')[2]
            for name in json.loads(result.read_text())])

    def test_program_dies_with_the_supervisor(self):
        def work():
            os.dup2(self.writer, 1)
            supervisor.command([sys.executable, '-c', (
                'import os, time; os.write(1, b"%d\\n" % os.getpid()); '
                f'time.sleep({LIMIT_S})')])()

        parent = self.fork_supervisor(work=work)
        self.read_pid()

        os.kill(parent, signal.SIGKILL)

        self.assertEqual(b'', self.read())

    def test_program_that_cannot_be_started_is_tried_again(self):
        program = self.directory / 'program'
        waits = []

        def install(seconds):
            waits.append(seconds)
            program.write_text('#!/bin/sh\nexit 0\n')
            program.chmod(0o755)

        with mock.patch('time.sleep', side_effect=install):
            supervisor.Supervisor(
                'program', supervisor.command([str(program)]),
                backoff=FAST).run()
        self.close_writer()

        self.assertEqual([0.01], waits)


class TestParent(base.BaseTestCase):

    def test_parent_of_a_multiprocessing_child_is_known_after_its_death(self):
        parent = mock.Mock(pid=4321)
        with mock.patch.object(multiprocessing, 'parent_process',
                               return_value=parent):
            self.assertEqual(4321, supervisor.parent_process())

    def test_parent_of_another_process_is_the_systems(self):
        with mock.patch.object(multiprocessing, 'parent_process',
                               return_value=None):
            self.assertEqual(os.getppid(), supervisor.parent_process())
