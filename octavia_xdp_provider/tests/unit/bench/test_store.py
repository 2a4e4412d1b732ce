# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
from unittest import mock

import fixtures

from bench import errors
from bench.results import document
from bench.results import model
from bench.results import owner
from bench.results import store
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench import results


class StoreCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.folder / 'new/results.sqlite'
        self.store = store.Store(self.path)

    def record(self, *cases, **values):
        run = results.run(**values)
        with self.store.recording(run):
            for case in cases or [results.case()]:
                self.store.add(run, case)
        return run

    def count(self, table):
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(
                f'SELECT count(*) FROM {table}').fetchone()[0]  # noqa: S608

    def refused(self, text, function, *arguments):
        error = self.assertRaises(errors.BenchError, function, *arguments)
        self.assertIn(text, str(error))


class TestRecording(StoreCase):

    def test_what_is_read_is_what_was_recorded(self):
        versus = model.Versus('haproxy', 'rate/ipip/64', 3.3, 3.1, 3.5)
        run = results.run()
        with self.store.recording(run):
            self.store.add(run, results.full_case())
            self.store.add(run, results.case())
            run.versus.append(versus)
        self.assertEqual([results.full_case(), results.case()], run.cases)
        self.assertEqual(run, store.Store(self.path).run(run.id))

    def test_runs_are_seen_when_they_are_finished(self):
        run = results.run()
        self.store.begin(run)
        self.store.add(run, results.case())
        self.assertEqual([], self.store.runs())
        self.refused(f'no run {run.id}', self.store.run, run.id)
        self.store.finish(run)
        self.assertEqual([run], self.store.runs())

    def test_runs_by_suite_and_commit_in_order_of_time(self):
        later = self.record(commit='abc1', suite='tables')
        earlier = self.record(
            commit='abc2', started=results.STARTED.replace(year=2025))
        self.record(commit='ab%1')
        self.assertEqual([earlier, later], self.store.runs(commit='abc'))
        self.assertEqual([later], self.store.runs('tables', 'abc'))
        self.assertEqual([], self.store.runs(commit='ab_'))

    def test_nothing_is_kept_of_a_run_that_fails(self):
        run = results.run()
        with self.assertRaisesRegex(KeyError, 'oops'), \
                self.store.recording(run):
            self.store.add(run, results.case())
            raise KeyError('oops')
        self.assertEqual((0, 0), (self.count('runs'), self.count('cases')))

    def test_numbers_are_not_used_again(self):
        run = results.run()
        self.store.begin(run)
        number = run.id
        self.store.discard(run)
        self.assertGreater(self.record().id, number)

    def test_what_is_no_result_is_refused(self):
        run = results.run()
        self.refused('not begun', self.store.add, run, results.case())
        self.store.begin(run)
        for case, text in (
                (results.case(samples=[float('nan')]), 'rate/ipip/64: '),
                (results.case(samples=[]), 'neither samples nor a mark'),
                (results.case(unit=''), "unit: '' "),
                (results.case(better='more'), "'more' is not one of"),
                (results.case(name=''), 'name: '),
                (results.case(details={'x': object()}), 'JSON')):
            self.refused(text, self.store.add, run, case)
        self.refused('non-empty', self.store.finish, run)
        self.store.add(run, results.case())
        self.refused('there already', self.store.add, run, results.case())
        self.store.add(run, results.case(software='haproxy', samples=[],
                                         marks=['not installed']))
        self.store.finish(run)
        self.refused('is finished', self.store.add, run,
                     results.case(name='other'))
        self.refused('is finished', self.store.finish, run)
        self.refused('is finished', self.store.discard, run)

    def test_run_without_time_zone_or_with_a_wrong_fingerprint(self):
        self.refused('time zone', self.store.begin, results.run(
            started=results.STARTED.replace(tzinfo=None)))
        self.refused('JSON', self.store.begin, results.run(
            fingerprint={'cpu': float('inf')}))
        self.assertEqual(0, self.count('runs'))


class TestAppendOnly(StoreCase):

    STATEMENTS = (
        "UPDATE runs SET commit_id = 'other' WHERE id = {0}",
        'UPDATE runs SET finished = NULL WHERE id = {0}',
        'DELETE FROM runs WHERE id = {0}',
        "UPDATE cases SET document = '{{}}' WHERE run = {0}",
        'DELETE FROM cases WHERE run = {0}',
        "INSERT INTO cases (run, software, name, document) "
        "VALUES ({0}, 'x', 'y', '{{}}')",
        'UPDATE cases SET run = {0} WHERE run = {1}',
        "UPDATE versus SET document = '{{}}' WHERE run = {0}",
        'DELETE FROM versus WHERE run = {0}',
        "INSERT INTO versus (run, document) VALUES ({0}, '{{}}')",
    )

    def test_any_other_client_is_refused(self):
        run = results.run()
        with self.store.recording(run):
            self.store.add(run, results.case())
            run.versus.append(model.Versus('ipvs', 'rate', 1.0, 0.9, 1.1))
        open_run = results.run()
        self.store.begin(open_run)
        self.store.add(open_run, results.case(name='other'))
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            for statement in self.STATEMENTS:
                with self.assertRaisesRegex(sqlite3.IntegrityError,
                                            'does not change'):
                    connection.execute(
                        statement.format(run.id, open_run.id))
        self.assertEqual([run], self.store.runs())

    def test_the_same_statements_change_what_is_not_finished(self):
        """They are refused for what they change, not for their form."""
        first, second = results.run(), results.run()
        self.store.begin(first)
        self.store.begin(second)
        self.store.add(second, results.case())
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            for statement in self.STATEMENTS[-1:1:-1]:
                connection.execute(statement.format(first.id, second.id))


class TestOwners(StoreCase):

    def begin_elsewhere(self):
        """A run that a process began which has ended, without a word."""
        subprocess.run([sys.executable, '-c', (
            'import pathlib\n'
            'from bench.results import store\n'
            'from octavia_xdp_provider.tests.unit.bench import results\n'
            f'opened = store.Store(pathlib.Path({str(self.path)!r}))\n'
            'run = results.run()\n'
            'opened.begin(run)\n'
            'opened.add(run, results.case())\n')], check=True)

    def test_run_of_a_dead_process_goes_with_the_next_one(self):
        self.begin_elsewhere()
        self.assertEqual(1, self.count('cases'))
        run = results.run()
        self.store.begin(run)
        self.assertEqual((1, 0), (self.count('runs'), self.count('cases')))

    def test_run_of_a_living_process_stays(self):
        first = results.run()
        self.store.begin(first)
        self.store.add(first, results.case())
        second = results.run(suite='tables')
        store.Store(self.path).begin(second)
        self.store.finish(first)
        self.assertEqual([first], self.store.runs())

    def test_later_process_with_the_same_id(self):
        here = owner.current()
        for other in (owner.Owner(here.boot, here.pid, here.started - 1),
                      owner.Owner('other boot/1', here.pid, here.started)):
            self.assertTrue(other.is_dead())
        boot, namespace = here.boot.split('/')
        for other in (here,
                      owner.Owner(f'{boot}/{namespace}1', 1 << 22, 1)):
            self.assertFalse(other.is_dead())


class TestFiles(StoreCase):

    def test_newer_version(self):
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            connection.execute('PRAGMA user_version = 2')
        self.refused('version 2', store.Store, self.path)

    def test_database_of_another_program(self):
        path = self.folder / 'other.sqlite'
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute('CREATE TABLE accounts (id INTEGER)')
        self.refused('not a store', store.Store, path)

    def test_file_that_is_no_database(self):
        path = self.folder / 'text'
        path.write_text('text ' * 100)
        self.refused(str(path), store.Store, path)

    def test_two_processes_make_one_store(self):
        path = self.folder / 'two.sqlite'
        programs = [subprocess.Popen([sys.executable, '-c', (
            'import pathlib, sys\n'
            'from bench.results import store\n'
            'from octavia_xdp_provider.tests.unit.bench import results\n'
            'sys.stdin.read()\n'
            f'opened = store.Store(pathlib.Path({str(path)!r}))\n'
            'for round in range(10):\n'
            f'    run = results.run(commit="process-{number}")\n'
            '    with opened.recording(run):\n'
            '        for name in "abcde":\n'
            '            opened.add(run, results.case(name))\n')],
            stdin=subprocess.PIPE) for number in range(2)]
        for program in programs:
            program.stdin.close()
        self.assertEqual([0, 0], [program.wait() for program in programs])
        for number in range(2):
            runs = store.Store(path).runs(commit=f'process-{number}')
            self.assertEqual([list('abcde')] * 10, [
                [case.name for case in run.cases] for run in runs])


class TestExport(StoreCase):

    def setUp(self):
        super().setUp()
        self.record(results.full_case(), results.case())
        self.record(commit='beef')
        self.text = document.write(self.store.runs())

    def other(self):
        return store.Store(self.folder / 'other.sqlite')

    def test_round_trip_is_exact(self):
        other = self.other()
        other.add_finished(document.read(self.text, 'file'))
        self.assertEqual(self.text, document.write(other.runs()))
        self.assertEqual(self.store.runs(), other.runs())

    def test_runs_that_are_there_are_not_added_again(self):
        runs = document.read(self.text, 'file')
        self.assertEqual([], self.store.add_finished(runs))
        self.assertEqual(2, len(self.store.runs()))

    def test_file_that_is_cut_off_is_refused_wherever(self):
        self.assertGreater(len(self.text), 1000)
        for end in range(0, len(self.text) - 1, 7):
            self.refused('cut off', document.read, self.text[:end], 'file')

    def test_file_of_another_form(self):
        whole = json.loads(self.text)
        for change, text in (
                (lambda made: made.update(version=2), 'version 2'),
                (lambda made: made.update(format='x'), '"format"'),
                (lambda made: made.update(more=1), "'more'"),
                (lambda made: made['runs'][1].pop('suite'), 'runs/1: '),
                (lambda made: made['runs'][1].update(started='soon'),
                 'runs/1: '),
                (lambda made: made['runs'][1].update(
                    started='2026-05-04T03:02:01'), 'time zone'),
                (lambda made: made['runs'][0]['cases'][0]['samples'].append(
                    'many'), 'runs/0/cases/0/samples/3: '),
                (lambda made: made['runs'][0]['cases'].append(
                    made['runs'][0]['cases'][0]), 'twice')):
            made = json.loads(json.dumps(whole))
            change(made)
            self.refused(text, document.read, json.dumps(made), 'file')
        self.refused('NaN is not a number', document.read,
                     self.text.replace('1e-300', 'NaN'), 'file')

    def test_runs_are_added_together_or_not_at_all(self):
        runs = document.read(self.text, 'file')
        runs[1].cases[0].samples.append(float('nan'))
        other = self.other()
        self.refused('case', other.add_finished, runs)
        self.assertEqual([], other.runs())


class TestBusy(StoreCase):

    def test_writer_that_does_not_end_is_named(self):
        with mock.patch.object(store, 'BUSY_TIMEOUT_S', 0):
            late = store.Store(self.path)
        with contextlib.closing(sqlite3.connect(
                self.path, isolation_level=None)) as connection:
            connection.execute('BEGIN IMMEDIATE')
            self.refused('locked', late.begin, results.run())
        self.assertTrue(os.path.exists(self.path))
