# SPDX-License-Identifier: Apache-2.0
"""Commits run in turn; and the commands around stored runs."""

import contextlib
import io
import json
import pathlib
import subprocess

import fixtures

from bench import __main__ as command
from bench import errors
from bench.compare import checkouts
from bench.compare import programs
from bench.compare import suite
from bench.compare import turns
from bench.results import document
from bench.results import store
from bench.results import verdict
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench import results


class FolderCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.folder / 'results.sqlite'

    def refused(self, text, function, *arguments):
        error = self.assertRaises(errors.BenchError, function, *arguments)
        self.assertIn(text, str(error))


class Recorded:
    """A runner of samples by place, that notes the order of rounds."""

    suite = 'recorded'

    def __init__(self, **rounds):
        self.rounds = {name: iter(values) for name, values in rounds.items()}
        self.order = []

    def run_round(self, checkout):
        self.order.append(checkout.name)
        outcome = next(self.rounds[checkout.name])
        if isinstance(outcome, Exception):
            raise outcome
        return [results.case(name, samples=[value])
                for name, value in outcome.items()]


class TestTurns(FolderCase):

    def run_turns(self, runner, rounds):
        self.said = []
        return turns.run(runner, ('a' * 40, 'b' * 40),
                         (pathlib.Path('a'), pathlib.Path('b')), rounds,
                         store.Store(self.path), {'kernel': '6.12'},
                         self.said.append)

    def test_every_other_round_begins_with_the_other(self):
        runner = Recorded(a=[{'x': 1.0}, {'x': 2.0}, {'x': 3.0}],
                          b=[{'x': 4.0}, {'x': 5.0}, {'x': 6.0}])
        before, after = self.run_turns(runner, 3)
        self.assertEqual(list('abbaab'), runner.order)
        self.assertEqual([1.0, 2.0, 3.0], before.cases[0].samples)
        self.assertEqual([4.0, 5.0, 6.0], after.cases[0].samples)
        self.assertEqual([before, after], store.Store(self.path).runs())
        self.assertEqual(before.fingerprint['in_turn'],
                         after.fingerprint['in_turn'])
        self.assertEqual(3, len(self.said))

    def test_nothing_is_stored_of_rounds_that_fail(self):
        for last in errors.BenchError('no'), {'y': 3.0}, {}:
            runner = Recorded(a=[{'x': 1.0}] * 2, b=[{'x': 2.0}, last])
            self.assertRaises(errors.BenchError, self.run_turns, runner, 2)
            self.assertEqual([], store.Store(self.path).runs())


class TestCheckouts(FolderCase):

    def setUp(self):
        super().setUp()
        self.root = self.folder / 'root'
        self.root.mkdir()
        self.git('init', '--quiet')
        (self.root / 'file').write_text('one')
        self.git('add', 'file')
        self.git('-c', 'user.name=x', '-c', 'user.email=x@example.org',
                 'commit', '--quiet', '--message', 'one')
        self.commit = checkouts.commit('HEAD', self.root)

    def git(self, *words):
        subprocess.run(['git', '-C', self.root, *words], check=True)

    def test_commit_is_checked_out_once_and_kept(self):
        places = [checkouts.checkout(self.commit, self.root,
                                     self.folder / 'refs') for _ in range(2)]
        self.assertEqual([self.folder / 'refs' / self.commit] * 2, places)
        self.assertEqual('one', (places[0] / 'file').read_text())

    def test_checkout_that_somebody_removed_is_made_again(self):
        place = checkouts.checkout(self.commit, self.root,
                                   self.folder / 'refs')
        (place / 'file').unlink()
        (place / '.git').unlink()
        place.rmdir()
        again = checkouts.checkout(self.commit, self.root,
                                   self.folder / 'refs')
        self.assertEqual('one', (again / 'file').read_text())

    def test_checkout_that_somebody_changed_is_refused(self):
        place = checkouts.checkout(self.commit, self.root,
                                   self.folder / 'refs')
        (place / 'file').write_text('two')
        self.refused('differ from the commit', checkouts.checkout,
                     self.commit, self.root, self.folder / 'refs')

    def test_what_is_no_commit(self):
        for ref in 'none', '--all', '', 'HEAD:file':
            self.refused('no commit', checkouts.commit, ref, self.root)


class TestPrograms(FolderCase):

    def test_failure_says_what_was_printed(self):
        self.refused('failed with 3: oops', programs.run, [
            'sh', '-c', 'echo oops >&2; exit 3'], self.folder, 60)
        for program in self.folder / 'none', self.folder:
            self.refused('does not start', programs.run, [program],
                         self.folder, 60)
        self.refused('no end after', programs.run, ['sleep', '60'],
                     self.folder, 0.01)


class TestSuite(FolderCase):

    def test_round_is_run_and_exported_by_the_command_of_the_checkout(self):
        (self.folder / 'bench').mkdir()
        (self.folder / 'bench/__main__.py').write_text(
            'import pathlib, sys\n'
            'words, exported = map(pathlib.Path, ("words", "exported"))\n'
            'if sys.argv[1] == "run":\n'
            '    words.write_text(" ".join(sys.argv))\n'
            'else:\n'
            '    print(exported.read_text())\n')
        cases = results.case(), results.case('x/ratio to floor')
        (self.folder / 'exported').write_text(document.write(
            [results.run(*cases)]))
        self.assertEqual([cases[0]], suite.Suite(
            'default', ['--only=rate*']).run_round(self.folder))
        words = (self.folder / 'words').read_text()
        self.assertIn(' run --suite=default --rounds=1 ', words)
        self.assertTrue(words.endswith(' --only=rate*'))

    def test_suite_that_is_none(self):
        self.refused('nothing', suite.Suite, 'nothing')


class TestCommands(FolderCase):

    def setUp(self):
        super().setUp()
        self.store = store.Store(self.path)
        self.store.add([
            results.run(results.case(samples=[speed] * 9),
                        results.case('lost', samples=[0.0], unit='packets',
                                     marks=['clock stepped: 1 s']),
                        commit=commit, fingerprint={'in_turn': 'x'},
                        started=results.STARTED.replace(day=day))
            for day, commit, speed in ((1, 'aaaa1', 100.0),
                                       (2, 'bbbb2', 100.0),
                                       (3, 'cccc3', 60.0))])

    def bench(self, *words):
        said, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), \
                contextlib.redirect_stderr(complained):
            status = command.main([*words, '--store', str(self.path)])
        return status, said.getvalue(), complained.getvalue()

    def test_compare_and_its_status(self):
        for words, expected in (
                (['1', '2', '--fail-on', 'changed'], 0),
                (['aaaa', 'latest'], 0),
                (['aaaa', 'latest', '--fail-on', 'changed'], 3),
                (['1', '3', '--fail-on', 'worse'], 3),
                (['3', '1', '--fail-on', 'worse'], 0),
                (['1', '3', '--fail-on', 'worse', '--threshold', '90'], 0)):
            self.assertEqual(expected, self.bench('compare', *words)[0], words)
        said = self.bench('compare', '1', '3')[1]
        self.assertTrue(said.startswith(f'## Benchmarks: ≠ {verdict.CHANGED}'))
        self.assertIn('clock stepped', said)

    def test_compare_writes_reports(self):
        files = [self.folder / 'new' / name for name in ('a.html', 'a.md')]
        _, said, _ = self.bench('compare', '1', '3', '--html', str(files[0]),
                                '--markdown', str(files[1]))
        self.assertIn('Verdict', files[0].read_text())
        self.assertEqual(said.strip(), files[1].read_text().strip())

    def test_what_cannot_be_compared(self):
        for words, text in ((['1', '9'], 'no run 9'),
                            (['1', '2', '--only', 'x'], '--only'),
                            (['1', 'latest~7'], '3 runs')):
            status, _, complained = self.bench('compare', *words)
            self.assertEqual(1, status)
            self.assertIn(text, complained)

    def test_history(self):
        said = self.bench('history')[1].splitlines()
        self.assertEqual(4, len(said))
        self.assertIn('aaaa1', said[1])
        said = self.bench('history', 'rate/*')[1].splitlines()
        self.assertEqual(4, len(said))
        self.assertIn('60 packets/s', said[3])
        status, _, complained = self.bench('history', 'none')
        self.assertEqual((1, True), (status, 'none' in complained))

    def test_report(self):
        status, said, _ = self.bench('report', '2', '--output',
                                     str(self.folder))
        self.assertEqual((0, 3), (status, len(said.split())))
        made = json.loads((self.folder / 'suite.json').read_text())
        self.assertEqual('bbbb2', made['commit'])
        self.assertIn('bbbb2', (self.folder / 'report.html').read_text())
        self.assertIn('clock stepped', (self.folder / 'report.md').read_text())

    def test_export_and_import(self):
        file = self.folder / 'runs.json'
        self.bench('export', 'aaaa', 'latest', '--output', str(file))
        whole = self.bench('export')[1]
        self.path = self.folder / 'other.sqlite'
        self.assertIn('2 runs added, 0 were there',
                      self.bench('import', str(file))[1])
        (self.folder / 'whole.json').write_text(whole)
        self.assertIn('1 runs added, 2 were there', self.bench(
            'import', str(self.folder / 'whole.json'))[1])
        self.assertEqual(whole, self.bench('export')[1])

    def test_import_of_a_file_that_was_cut_off(self):
        whole = self.bench('export')[1]
        self.path = self.folder / 'other.sqlite'
        good, bad = self.folder / 'good.json', self.folder / 'bad.json'
        good.write_text(whole)
        bad.write_text(whole[:-20])
        status, _, complained = self.bench('import', str(good), str(bad))
        self.assertEqual((1, True), (status, 'cut off' in complained))
        self.assertEqual([], store.Store(self.path).runs())

