# SPDX-License-Identifier: Apache-2.0
"""The engine that runs scenarios: order, progress, figures, marks."""

import dataclasses
import io
import pathlib
import types
from unittest import mock

import fixtures

from bench import errors
from bench.declarations import definitions
from bench.engine import alone
from bench.engine import context as contexts
from bench.engine import events
from bench.engine import figures
from bench.engine import named
from bench.engine import plan
from bench.engine import progress
from bench.engine import run
from bench.engine import surroundings
from bench.engine import testbeds
from bench.engine import versus
from bench.engine.kinds import ecmp_share
from bench.results import model as results
from bench.scenarios import alone as kinds
from bench.scenarios import model
from bench.software import xdp
from octavia_xdp_provider.tests.unit import base

RATE = model.Measure('max_rate', seconds=2)


def variant(name, **more):
    return model.Variant(name, 'one-node', RATE, **more)


class TestPlan(base.TestCase):

    def test_rounds_of_all_cases_are_interleaved_and_peers_follow(self):
        made = plan.steps([
            variant('a', rounds=2, beside=(model.Software('kernel'),)),
            variant('b', rounds=1)])
        self.assertEqual(
            ['a xdp 1', 'a kernel 1', 'b xdp 1', 'a xdp 2', 'a kernel 2'],
            [f'{step.variant.name} {step.software.name} {step.number}'
             for step in made])

    def test_what_is_missing_on_a_bed_is_left_out_there_alone(self):
        both = (model.Software('kernel'),)
        other = dataclasses.replace(variant('b', rounds=1, beside=both),
                                    bed='other')
        made = plan.steps([variant('a', rounds=1, beside=both), other],
                          frozenset({('one-node', 'kernel')}))
        self.assertEqual(
            [('a', 'xdp'), ('b', 'xdp'), ('b', 'kernel')],
            [(step.variant.name, step.software.name) for step in made])

    def test_a_bed_is_made_once(self):
        made = plan.steps([variant('a', rounds=1), variant('b', rounds=1)])
        self.assertEqual(sum(step.seconds for step in made) + plan.BED_S,
                         plan.seconds(made))


class TestProgress(base.TestCase):

    def test_what_remains_follows_from_what_it_took_so_far(self):
        now = [0.0]
        out = io.StringIO()
        shown = progress.Progress({'one': 10, 'two': 20, 'three': 30}, out,
                                  lambda: now[0])
        self.assertEqual(60, shown.remaining())
        shown.begin('one')
        now[0] = 20
        shown.end('one', 20, '7 packets/s')
        self.assertEqual(100, shown.remaining())
        shown.begin('two')
        self.assertEqual(
            ['  0:00 [1/3] one, 1:00 remaining',
             '  0:20         7 packets/s (20.0 s)',
             '  0:20 [2/3] two, 1:40 remaining'],
            out.getvalue().splitlines())


class TestCases(base.TestCase):

    def figure(self, value, part='', **more):
        return figures.Figure(part, 'ns', results.LOWER, value, **more)

    def test_rounds_become_samples_and_marks_say_of_which_round(self):
        cases = figures.Cases()
        tried = variant('a/64', coordinates={'sizes': 64})
        cases.add(tried, 'xdp', 1, [self.figure(5.0),
                                    self.figure(9.0, 'p99')])
        cases.add(tried, 'xdp', 2, [
            self.figure(6.0, marks=['rate not reached: 1 of 2']),
            self.figure(8.0, 'p99')])
        first, second = cases.all()
        self.assertEqual(('a/64', [5.0, 6.0], {'sizes': 64}),
                         (first.name, first.samples, first.coordinates))
        self.assertEqual(['rate not reached: 1 of 2 (round 2)'], first.marks)
        self.assertEqual(('a/64/p99', [9.0, 8.0]),
                         (second.name, second.samples))

    def test_the_product_is_set_beside_its_peers(self):
        cases = figures.Cases()
        tried = variant('a', beside=(model.Software('kernel'),))
        for number in (1, 2):
            cases.add(tried, 'xdp', number, [self.figure(10.0),
                                             self.figure(0.0, 'loss')])
            cases.add(tried, 'kernel', number, [self.figure(40.0),
                                                self.figure(0.5, 'loss')])
        ratio, = versus.of(cases.all(), cases.ours)
        self.assertEqual(('kernel', 'a'), (ratio.peer, ratio.case))
        self.assertAlmostEqual(4.0, ratio.ratio)


class TestSurroundings(base.TestCase):

    def watched(self, before, after, **options):
        watch = surroundings.Watch(**options)
        watch._cpus = 2
        with (mock.patch.object(watch, '_sample', side_effect=[before, after]),
              watch.watching() as marks):
            pass
        return marks

    def test_marks(self):
        step = 'clock step: it was set by +5.000 s meanwhile'
        busy = (0, 0, 10, 1, 2), (10, 15, 16, 3, 4)
        for before, after, load, wanted in (
                ((0, 100, 5, 0, 1), (10, 110, 8, 0, 4), True, []),
                ((0, 100, 0, 0, 0), (10, 115, 0, 0, 0), True, [step]),
                (*busy, True, [
                    step, 'other load: other processes took 20% of 2 CPUs',
                    'other load: the hypervisor took 10% of 2 CPUs']),
                (*busy, False, [step])):
            self.assertEqual(wanted, self.watched(before, after, load=load))

    def test_own_time_is_that_of_all_processes_below(self):
        # The machine has used at least what this process has.
        _, _, machine, _, own = surroundings.Watch()._sample()
        self.assertGreater(own, 0)
        self.assertGreaterEqual(machine, own)


class TestEvents(base.TestCase):

    def test_events_are_refused_where_clocks_are_not_this_machines(self):
        bed = mock.Mock(counts_instructions=True)
        bed.name = 'counted'
        script = events.Script(contexts.Context(
            bed, variant('a', events=(model.Event(1, 'table_update'),)),
            model.Software(), [], mock.Mock()))
        error = self.assertRaises(errors.BenchError, script.__enter__)
        self.assertIn('bed counted counts instructions', str(error))


class TestNamed(base.TestCase):

    def test_names_say_units_and_what_is_better(self):
        self.assertEqual(
            [('api_to_map/p50', 's', results.LOWER, 0.12),
             ('fleet/changes_per_s', '1/s', results.HIGHER, 20.1),
             ('fleet/rss', 'bytes', results.LOWER, 150e6),
             ('IPv4 UDP', 'ns', results.LOWER, 47),
             ('IPv4 UDP/ratio to floor', '1', results.LOWER, 1.74),
             ('broken', 'connections', results.LOWER, 0)],
            [(figure.part, figure.unit, figure.better, figure.value)
             for figure in named.figures_of({
                 'api_to_map': {'p50_ms': 120},
                 'fleet': {'changes_per_s': 20.1, 'rss_mb': 150, 'nodes': 50,
                           'ready_s': None, 'keep_s': True},
                 'IPv4 UDP_ns': 47, 'IPv4 UDP': {'ratio to floor': 1.74},
                 'broken': 0})])


class TestAlone(base.TestCase):

    MEASURE = model.Measure('part', settings={'number': 4})

    def run_part(self, text, *spaces):
        """With a module of this text as the kind "part"."""
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (folder / 'part.py').write_text(text)
        (folder / 'sitecustomize.py').write_text(
            'from bench.scenarios import alone\n'
            f'alone.KINDS["part"] = alone.Alone("part", (), {{}}, {spaces})')
        self.useFixture(fixtures.EnvironmentVariable(
            'PYTHONPATH', f'{folder}:{alone.CHECKOUT}'))
        kind = kinds.Alone('part', (), {'number': 3, 'more': 5}, spaces)
        self.useFixture(fixtures.MockPatchObject(
            kinds, 'KINDS', {'part': kind}))
        self.useFixture(fixtures.MockPatchObject(
            alone.os, 'geteuid', return_value=0))
        return alone.run(self.MEASURE, 'xdp')

    def test_figures_and_details_come_back_beside_what_is_printed(self):
        wall, more = self.run_part(
            'import os\n'
            'def run(asked):\n'
            '    print("on the way")\n'
            '    os.system("echo and of a program")\n'
            '    return ({"wall_s": asked.settings["number"],\n'
            '             "more_ms": asked.settings["more"]},\n'
            '            [asked.software, asked.seconds])\n')
        self.assertEqual(('wall', 4, 'more', 0.005),
                         (wall.part, wall.value, more.part, more.value))
        self.assertEqual({'software': ['xdp', 2.0]}, wall.details)

    def test_a_part_that_fails_is_an_error(self):
        error = self.assertRaises(errors.BenchError, self.run_part,
                                  'def run(asked):\n    raise SystemExit(3)')
        self.assertIn('ended with 3', str(error))

    def test_who_is_not_root_is_told_so(self):
        with mock.patch.object(alone.os, 'geteuid', return_value=1000):
            error = self.assertRaises(errors.BenchError, alone.run,
                                      model.Measure('tables'), 'xdp')
        self.assertIn('as root', str(error))

    def test_it_needs_no_bed(self):
        tables = dataclasses.replace(variant('a'),
                                     measure=model.Measure('tables'))
        self.assertEqual([testbeds.key_of(variant('b'))],
                         testbeds.keys([tables, variant('b')]))


class TestShares(base.TestCase):

    def test_unevenness_is_the_greatest_share_times_nodes(self):
        self.assertEqual(1.0, ecmp_share.unevenness({'lb1': 5, 'lb2': 5}))
        self.assertEqual(1.5, ecmp_share.unevenness(
            {'lb1': 75, 'lb2': 25, 'lb3': 0}))
        self.assertRaises(errors.BenchError, ecmp_share.unevenness,
                          {'lb1': 0})

    def test_flows_that_moved_are_those_of_vips_at_another_node(self):
        before = {'lb1': {'a': 10, 'b': 10, 'c': 0, 'd': 0},
                  'lb2': {'a': 0, 'b': 0, 'c': 10, 'd': 10}}
        after = {'lb1': {'a': 7, 'b': 0, 'c': 0, 'd': 0},
                 'lb2': {'a': 0, 'b': 9, 'c': 12, 'd': 0}}
        # d had no packet afterwards: nothing is known of it.
        self.assertAlmostEqual(1 / 3, ecmp_share.moved(before, after))


class TestXdpConfiguration(base.TestCase):

    def test_keys_and_types_are_checked(self):
        for given, words in (
                ({'encapsulatoin': 'gue'}, 'unknown key "encapsulatoin"'),
                ({'dscp': 'ten'}, "dscp: 'ten' is no int"),
                ({'quic': 1}, 'quic: 1 is no bool'),
                ({'dscp': True}, 'dscp: True is no int'),
                ({'next_hop': 'bgp'}, 'none of auto, uplinks, routes'),
                ({'routing': 'ospf'}, 'none of static, bgp'),
                ({'hold_time_s': 2}, 'hold_time_s: 2 is below 3')):
            error = self.assertRaises(errors.BenchError,
                                      xdp.Configuration.of, given)
            self.assertIn(words, str(error))
        self.assertEqual(1.0, xdp.Configuration.of(
            {'detection_s': 1}).detection_s)


class TestBeds(base.TestCase):

    def test_what_a_scenario_changes_is_checked_with_its_line(self):
        made = testbeds.declared(
            ('eight-nodes', ((('hosts', 'lb', 'count'), 2),)))
        self.assertEqual(2, sum(host.group == 'lb'
                                for host in made.hosts.values()))
        self.assertEqual('eight-nodes hosts.lb.count=2', made.name)
        for keys, value, words in (
                (('hosts', 'lb', 'count'), 'many', 'hosts.lb.count'),
                (('hosts', 'lb', 'rolle'), 1, 'rolle'),
                (('name', 'x'), 1, 'name.x')):
            error = self.assertRaises(
                errors.DeclarationError, testbeds.declared,
                ('eight-nodes', ((keys, value),)))
            self.assertIn(words, str(error))
            self.assertGreater(error.line, 0)

    def test_configuration_of_a_bed(self):
        """It is for the bed's own software; a scenario may override it."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path,
                            'bed.yaml')
        text = definitions.find('beds', 'one-node').read_text()
        path.write_text(text + 'software:\n'
                        '  configuration: {dscp: 1, slots: 64}\n')
        bed = testbeds.declared((str(path), ()))
        made = testbeds.configured(variant(
            'a', software=model.Software('xdp', {'dscp': 2}),
            beside=(model.Software('kernel'),)), bed)
        self.assertEqual({'dscp': 2, 'slots': 64},
                         made.software.configuration)
        self.assertEqual({}, made.beside[0].configuration)
        path.write_text(text + 'software:\n  name: kernel\n'
                        '  configuration: {detection_s: 1}\n')
        made = testbeds.configured(variant(
            'a', beside=(model.Software('kernel'),)),
            testbeds.declared((str(path), ())))
        self.assertEqual(({}, {'detection_s': 1}), (
            made.software.configuration, made.beside[0].configuration))
        path.write_text(text + 'software:\n  name: kernell\n')
        error = self.assertRaises(errors.DeclarationError, testbeds.declared,
                                  (str(path), ()))
        self.assertIn('no software "kernell"', error.text)
        self.assertEqual(len(text.splitlines()) + 2, error.line)
        path.write_text(text + 'software:\n  configuration:\n    dscp: ef\n')
        error = self.assertRaises(errors.DeclarationError, testbeds.declared,
                                  (str(path), ()))
        self.assertIn("dscp: 'ef' is no int", error.text)
        self.assertEqual(len(text.splitlines()) + 3, error.line)

    def test_what_is_under_test(self):
        """A commit, or what machines have installed."""
        plain = types.SimpleNamespace(name='plain', installed=None)
        self.assertEqual(run.commit(), run.under_test([plain]))
        installed = types.SimpleNamespace(name='rack', installed={
            'lb': {'octavia-xdp-node': '0.1.0 abcd'}, 'generator': {}})
        self.assertEqual('0.1.0 abcd', run.under_test([plain, installed]))
