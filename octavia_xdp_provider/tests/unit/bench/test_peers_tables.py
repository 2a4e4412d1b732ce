# SPDX-License-Identifier: Apache-2.0
"""The tables of the documentation of peers, as a store has their figures."""

import contextlib
import io
import pathlib

from docutils import core
from docutils import nodes
import fixtures

import bench
from bench import __main__ as command
from bench import errors
from bench.report import peers
from bench.results import store as stores
from bench.scenarios import load
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench import results

ON = 'beside_others/on'


def case(name, *samples, **values):
    return results.case(name, samples, **values)


def rows_of(text):
    """Rows of each table, by its title."""
    tree = core.publish_doctree(text, settings_overrides={
        'report_level': 2, 'halt_level': 2})
    return {table.next_node(nodes.title).astext(): [
        [entry.astext() for entry in row.findall(nodes.entry)]
        for row in table.findall(nodes.row)]
        for table in tree.findall(nodes.table)}


class TestTables(base.TestCase):

    def run_(self, *cases, **values):
        return results.run(*cases, **{'id': 1, 'suite': 'peers', **values})

    def test_figures_in_the_units_of_the_head(self):
        text = peers.text_of([self.run_(
            case(ON, 3000.0, 1000.0, 2000.0),
            case(f'{ON}/p50', 0.002), case(f'{ON}/cpu', 1.5, 2.5),
            case(f'{ON}/cpu', 20.0, 60.0, software='haproxy',
                 marks=['other load: others took 9 % (round 1)',
                        'other load: others took 8 % (round 2)']),
            case(f'{ON}/memory', 27 * 2.0 ** 20))])
        head, ours, haproxy = rows_of(text)['Connections are kept']
        row = dict(zip(head, ours, strict=True))
        self.assertEqual('this product', row['software'])
        self.assertEqual('2,000 (1,000 to 3,000)', row['requests/s'])
        self.assertEqual('2', row['p50, ms'])
        self.assertEqual('2 (1.5 to 2.5)', row['CPU, s a million requests'])
        self.assertEqual('1', row['CPU, times ours'])
        self.assertEqual('27', row['memory, MiB'])
        self.assertEqual('not measured', row['p99, ms'])
        peers_row = dict(zip(head, haproxy, strict=True))
        self.assertEqual(('HAProxy', '20', 'not measured'), (
            peers_row['software'], peers_row['CPU, times ours'],
            peers_row['requests/s']))
        self.assertIn('Medians of 1, 2 or 3 rounds', text)
        self.assertIn('2026-05-04', text)
        self.assertIn('commit c0ffee.', text)
        self.assertEqual(1, text.count('Marked: other load (HAProxy).'))

    def test_of_several_runs_the_last_has_the_word(self):
        text = peers.text_of([
            self.run_(case(ON, 1.0), case('beside_ipvs/on', 5.0)),
            self.run_(case(ON, 2.0), id=2, commit='beef')])
        rows = rows_of(text)
        self.assertEqual('2', rows['Connections are kept'][1][1])
        self.assertEqual('5', rows[
            'In a guest that counts instructions: connections are kept'][1][1])
        self.assertIn('commit beef.', text)

    def test_what_was_not_measured_is_said(self):
        text = peers.text_of([self.run_(
            case(ON, 1.0), case('beside_packets/cpu', software='nginx',
                                marks=['missing: no nginx']))])
        self.assertIn('*10,000 datagrams/s*: not measured.', text)
        self.assertEqual(['Connections are kept'], list(rows_of(text)))

    def test_runs_of_something_else_are_refused(self):
        error = self.assertRaises(errors.BenchError, peers.text_of,
                                  [self.run_(case('sizes/64', 1.0))])
        self.assertIn('run --suite peers', str(error))

    def test_the_page_has_all_tables(self):
        text = (pathlib.Path(bench.__file__).parents[1] / 'doc/source'
                '/contributor/benchmarks/peers-tables.inc').read_text()
        self.assertTrue(text.startswith(peers.HEAD))
        for table in peers.TABLES:
            self.assertIn(table.title, text)

    def test_the_suite_measures_all_that_tables_have(self):
        measured = {variant.name for variant in load.suite('peers').variants}
        self.assertEqual(measured, {table.case for table in peers.TABLES})


class TestCommand(base.TestCase):

    def test_the_latest_run_of_the_suite_or_those_that_are_named(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        store = stores.Store(folder / 'results.sqlite')
        for suite, value in ('peers', 7.0), ('other', 8.0):
            store.add([results.run(case(ON, value), suite=suite)])
        path = folder / 'tables.inc'
        for runs, value in ((), '7'), (('latest',), '8'):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                status = command.main([
                    'peers', *runs, '--store', str(store.path),
                    '--output', str(path)])
            self.assertEqual((0, f'{path}\n'), (status, said.getvalue()))
            self.assertEqual(
                value, rows_of(path.read_text())['Connections are kept'][1][1])
