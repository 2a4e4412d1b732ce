# SPDX-License-Identifier: Apache-2.0
"""From a YAML file to suite.json: real beds, real traffic, the real program.

What is asserted holds whatever the machine does meanwhile, as that a node has
dropped what the sink did not see.
"""

import io
import json
import os
import pathlib
import signal
import subprocess
import sys

import fixtures
from oslotest import base

import bench
from bench.beds import runs
from bench.engine import run as engine
from bench.results import store as stores
from bench.scenarios import load
from bench.traffic import programs
from lab import namespaces
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import waiting

CHECKOUT = pathlib.Path(bench.__file__).parents[1]
LIBRARY = CHECKOUT / 'datapath/build/liboctavia_xdp.so'
PATIENCE_S = 120
TINY = '''\
summary: a moment of traffic
services: {vips: 3, members: 6}
traffic: {flows: 64}
measure: {kind: max_rate, seconds: 0.2}
rounds: 2
'''


class Engine(waiting.Waiting, base.BaseTestCase):

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')
        for built in (LIBRARY, programs.PROGRAM):
            if not built.exists():
                self.skipTest(f'{built.name} is not built')
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.store = self.folder / 'results.sqlite'

    def write(self, text, name='tiny'):
        path = self.folder / f'{name}.yaml'
        path.write_text(text)
        return str(path)

    def run_scenario(self, text, name='tiny'):
        """(the engine, the run) of a scenario."""
        made = engine.Engine(
            load.scenario(self.write(text, name)),
            engine.Options(store=self.store, out=io.StringIO()))
        return made, made.run('test')

    def figures(self, text, name='tiny'):
        """Case by name of the scenario's first and only round."""
        made, run = self.run_scenario(text, name)
        self.assertEqual({}, made.failed)
        return {case.name: case for case in run.cases}


class TestCommand(Engine):

    def start(self, text):
        return subprocess.Popen(
            [sys.executable, '-m', 'bench', 'run', '--scenario',
             self.write(text), '--store', str(self.store), '--output',
             str(self.folder)], cwd=CHECKOUT, text=True,
            stderr=subprocess.PIPE, stdout=subprocess.PIPE)

    def test_from_a_file_to_suite_json(self):
        process = self.start(
            TINY + 'beside: [{name: kernel}, {name: ipvs}]\n')
        _, said = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(0, process.returncode, said)
        self.assertIn('[1/4] tiny xdp, round 1 of 2', said)
        self.assertIn('remaining', said)
        document = json.loads((self.folder / 'suite.json').read_text())
        cases = {case['software']: case for case in document['cases']}
        for name in ('xdp', 'kernel'):
            self.assertGreater(cases[name]['value'], 0)
            self.assertEqual(2, cases[name]['rounds'])
        self.assertEqual(['kernel'], [ratio['peer']
                                      for ratio in document['versus']])
        # This kernel has IPVS or has it not: never nothing at all.
        self.assertTrue(cases['ipvs']['rounds'] or
                        'missing: ' in cases['ipvs']['marks'][0])
        self.assertIn('one-node', document['fingerprint']['beds'])
        self.assertEqual(1, len(stores.Store(self.store).runs()))

    def wait_for_traffic(self, process):
        """The names of its runs, once it measures."""
        before = set(runs.living())
        for line in process.stderr:
            if '[1/' in line:
                break
        else:
            self.fail('it ended before anything was measured')
        return before

    def assert_nothing_left(self):
        """Of runs whose process has ended."""
        self.wait('end of the rest', lambda: not self.left(), PATIENCE_S)

    def left(self):
        return [name for name in self.names()
                if runs.id_of(name) not in runs.living()]

    @staticmethod
    def names():
        return {path.name.split('.')[1]
                for path in namespaces.NETNS.glob(runs.namespace('r*', '*'))}

    def test_killed_in_the_middle_nothing_is_left_and_a_second_run_works(
            self):
        process = self.start(TINY.replace('0.2', '60'))
        self.addCleanup(process.kill)
        self.wait_for_traffic(process)
        self.assertTrue(self.names())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.assert_nothing_left()
        second = self.start(TINY)
        _, said = second.communicate(timeout=PATIENCE_S)
        self.assertEqual(0, second.returncode, said)
        run, = stores.Store(self.store).runs()
        self.assertEqual('tiny', run.suite)

    @form.in_long_form
    def test_terminated_it_takes_all_down_itself(self):
        process = self.start(TINY.replace('0.2', '60'))
        self.addCleanup(process.kill)
        self.wait_for_traffic(process)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(130, process.returncode, said)
        self.assertEqual([], self.left())
        self.assertEqual([], stores.Store(self.store).runs())
        self.assertFalse((self.folder / 'suite.json').exists())


@form.in_long_form
class TestEvents(Engine):

    def test_what_a_stopped_node_drops_is_what_is_lost(self):
        cases = self.figures('''\
            summary: a node stops, and routes leave it out half a second later
            bed: {name: eight-nodes, set: {hosts: {lb: {count: 2}}}}
            software: {configuration: {detection_s: 0.5}}
            traffic: {flows: 256}
            measure: {kind: timeline, rate: 2000, seconds: 3}
            events:
              - {at: 1, do: node_stops, node: 1}
            rounds: 1
            ''', 'loss')
        lost = cases['loss/lost']
        count, = lost.samples
        dropped = lost.details['rounds'][0]['software']
        self.assertGreater(count, 0)
        self.assertEqual({'lb1': {'DROP_NO_NEXT_HOP': count}, 'lb2': {}},
                         dropped)
        self.assertEqual(count, sum(moment[2] for moment in lost.timeline))
        self.assertEqual(['node stops: 1'],
                         [what for _at, what in lost.events])
        # Not all flows pass that node.
        flows, = cases['loss/flows_with_loss'].samples
        self.assertTrue(0 < flows < 256, flows)

    def test_health_and_tables_may_change_without_a_loss(self):
        cases = self.figures('''\
            summary: nothing is lost
            services: {vips: 8, members: 3}
            traffic: {flows: 256}
            measure: {kind: timeline, rate: 1000, seconds: 2}
            events:
              - {at: 0.5, do: health_changes, member: 1}
              - {at: 0.8, do: health_changes, member: 1, up: true}
              - {at: 1.1, do: member_added}
              - {at: 1.4, do: table_update}
            rounds: 1
            ''', 'changes')
        lost = cases['changes/lost']
        refused = lost.details['rounds'][0]['refused']
        self.assertEqual([refused], lost.samples)
        self.assertEqual(
            ['health changes: 1 down', 'health changes: 1 up',
             'member added', 'table update: all services'],
            [what for _at, what in lost.events])

    def test_a_dead_member_is_back_after_the_round(self):
        cases = self.figures('''\
            summary: a member dies
            services: {members: 2}
            traffic: {flows: 64}
            measure: {kind: timeline, rate: 1000, seconds: 2}
            events:
              - {at: 0.5, do: member_dies, member: 1}
            rounds: 2
            ''', 'death')
        # Lost in the first round, and whole again before the second.
        first, second = cases['death/lost'].samples
        self.assertGreater(first, 0)
        self.assertGreater(second, 0)
        for measured in cases['death/lost'].details['rounds']:
            self.assertGreater(measured['by_receiver']['member'], 0)

    def test_a_member_dies_on_a_segment_that_others_hear(self):
        cases = self.figures('''\
            summary: one of two members on one segment dies
            bed: {name: eight-nodes, set: {hosts: {
              lb: {count: 1}, member: {count: 2}}}}
            services: {members: 2}
            traffic: {flows: 64}
            measure: {kind: timeline, rate: 1000, seconds: 2}
            events: [{at: 0.5, do: member_dies}]
            rounds: 1
            ''', 'segment')
        done, = cases['segment/lost'].details['rounds']
        self.assertGreater(cases['segment/lost'].samples[0], 0)
        # What its switch sends to all is none of the other one's.
        self.assertGreater(done['foreign_by_kind']['other_host'], 0)
        self.assertEqual(0, done['duplicated'])
        self.assertEqual(done['received'], sum(done['by_receiver'].values()))


@form.in_long_form
class TestNodes(Engine):

    def test_each_flow_is_at_one_node_and_a_stopped_one_loses_its_own(self):
        cases = self.figures('''\
            summary: shares of nodes
            bed: {name: eight-nodes, set: {hosts: {lb: {count: 2}}}}
            software: {configuration: {detection_s: 0}}
            services: {vips: 64}
            traffic: {flows: 64}
            measure: {kind: ecmp_share, rate: 2000, seconds: 0.5}
            events:
              - {at: 0, do: node_stops, node: 1}
              - {at: 0, do: node_starts, node: 1}
            rounds: 1
            ''', 'nodes')
        share = cases['nodes/share'].details['rounds'][0]['packets']
        self.assertEqual({'lb1', 'lb2'}, set(share))
        self.assertGreater(min(share.values()), 0)
        gone = cases['nodes/moved, node stops: 1']
        self.assertEqual(
            0, gone.details['rounds'][0]['packets']['lb1'])
        # Those of the node that stopped move, with two nodes no others.
        moved, = gone.samples
        self.assertTrue(0 < moved < 1, moved)
        back, = cases['nodes/moved, node starts: 1'].samples
        self.assertAlmostEqual(moved, back)


@form.in_long_form
class TestFailures(Engine):

    def test_what_cannot_be_measured_is_named_in_the_result(self):
        text = TINY + '''\
software: {configuration: {encapsulation: srv6}}
matrix: {services.member_family: [4, 6]}
'''
        made, run = self.run_scenario(text)
        self.assertEqual([('tiny/4', 'xdp')], list(made.failed))
        self.assertIn('SRv6', made.failed['tiny/4', 'xdp'])
        cases = {case.name: case for case in run.cases}
        self.assertEqual([], cases['tiny/4'].samples)
        self.assertIn('SRv6', cases['tiny/4'].marks[0])
        self.assertEqual(2, len(cases['tiny/6'].samples))

    def test_a_run_without_any_figure_is_not_kept(self):
        text = TINY + 'software: {configuration: {encapsulation: srv6}}\n'
        error = self.assertRaises(
            engine.errors.BenchError, self.run_scenario, text)
        self.assertIn('no case could be measured', str(error))
        self.assertEqual([], stores.Store(self.store).runs())
