# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import sys
from unittest import mock

import fixtures

from bench import errors
from bench.results import document
from bench.results import model
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
        run = results.run(*(cases or [results.case()]), **values)
        self.assertEqual([run], self.store.add([run]))
        return run

    def refused(self, text, function, *arguments):
        error = self.assertRaises(errors.BenchError, function, *arguments)
        self.assertIn(text, str(error))


class TestRecording(StoreCase):

    def test_what_is_read_is_what_was_recorded(self):
        run = self.record(
            results.full_case(), results.case(),
            versus=[model.Versus('haproxy', 'rate/ipip/64', 3.3, 3.1, 3.5)])
        self.assertEqual(run, store.Store(self.path).run(run.id))
        self.refused('no run 7', self.store.run, 7)

    def test_runs_by_suite_and_commit_in_order_of_time(self):
        later = self.record(commit='abc1', suite='tables')
        earlier = self.record(
            commit='abc2', started=results.STARTED.replace(year=2025))
        self.record(commit='ab%1')
        self.assertEqual([earlier, later], self.store.runs(commit='abc'))
        self.assertEqual([later], self.store.runs('tables', 'abc'))
        self.assertEqual([], self.store.runs(commit='ab_'))

    def test_what_is_no_result_is_refused(self):
        for case, text in (
                (results.case(samples=[float('nan')]), 'rate/ipip/64: '),
                (results.case(samples=[]), 'neither samples nor a mark'),
                (results.case(unit=''), "unit: '' "),
                (results.case(better='more'), "'more' is not one of"),
                (results.case(name=''), 'name: '),
                (results.case(details={'x': object()}), 'JSON')):
            self.refused(text, self.store.add, [results.run(case)])
        self.refused('non-empty', self.store.add, [results.run()])
        self.refused('twice', self.store.add,
                     [results.run(results.case(), results.case())])
        self.refused('time zone', self.store.add, [results.run(
            results.case(), started=results.STARTED.replace(tzinfo=None))])
        self.refused('JSON', self.store.add, [results.run(
            results.case(), fingerprint={'cpu': float('inf')})])
        self.assertEqual([], self.store.runs())
        self.record(results.case(), results.case(
            software='haproxy', samples=[], marks=['not installed']))

    def test_any_other_client_is_refused(self):
        run = self.record()
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            for statement in ("UPDATE runs SET commit_id = 'other'",
                              "UPDATE runs SET document = '{}'",
                              'DELETE FROM runs'):
                with self.assertRaisesRegex(sqlite3.IntegrityError,
                                            'does not change'):
                    connection.execute(statement)
        self.assertEqual([run], self.store.runs())


class TestFiles(StoreCase):

    def test_other_version(self):
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            connection.execute('PRAGMA user_version = 3')
        self.refused('version 3', store.Store, self.path)

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
            f'    opened.add([results.run(results.case(f"{{round}}"), '
            f'commit="process-{number}")])\n')],
            stdin=subprocess.PIPE) for number in range(2)]
        for program in programs:
            program.stdin.close()
        self.assertEqual([0, 0], [program.wait() for program in programs])
        for number in range(2):
            runs = store.Store(path).runs(commit=f'process-{number}')
            self.assertEqual(list('0123456789'), [
                run.cases[0].name for run in runs])

    def test_writer_that_does_not_end_is_named(self):
        with (contextlib.closing(sqlite3.connect(
                  self.path, isolation_level=None)) as connection,
              mock.patch.object(store, 'BUSY_TIMEOUT_S', 0)):
            connection.execute('BEGIN IMMEDIATE')
            self.refused('locked', self.store.add, [results.run()])


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
        other.add(document.read(self.text, 'file'))
        self.assertEqual(self.text, document.write(other.runs()))
        self.assertEqual(self.store.runs(), other.runs())

    def test_runs_that_are_there_are_not_added_again(self):
        runs = document.read(self.text, 'file')
        self.assertEqual([], self.store.add(runs))
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
        self.refused('case', other.add, runs)
        self.assertEqual([], other.runs())
